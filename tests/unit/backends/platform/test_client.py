from __future__ import annotations

import pytest

from siflow_provider.backends.platform import client as client_module
from siflow_provider.backends.platform.client import Client
from siflow_provider.backends.platform.errors import AnswerLost, NotFound, Refused
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import AccessDenied, BackendUnavailable, UsageError
from siflow_provider.spec.hidden import Hidden
from tests.platform.client import connection
from tests.platform.names import KEY_SECRET
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK
from tests.unit.backends.platform.tasks import CREATE, creations

TASKS = "/task-service/v1/tasks"
BODY = {
    "namePrefix": "a-b", "type": "pytorchjob", "image": "a", "imageVersion": "1", "imageUrl": "a:1", "cmd": "true",
    "workers": 0, "resourcePool": "nowhere", "instances": [{"name": "i", "countPerPod": 1}],
}  # fmt: skip


async def test_a_passing_fault_is_ridden_out_with_a_new_signature_each_time(
    running: RunningPlatform, client: Client
) -> None:
    # answered after the signature was looked at: the fake refuses one that it has seen
    once, again = {"status": 503, "after": True}, {"status": 429, "after": True, "headers": {"Retry-After": "1"}}
    running.change(faults=[once, again])
    assert (await client.get(TASKS)).rows == []
    assert client.requests == 3


async def test_a_fault_that_stays_is_told_with_ids(running: RunningPlatform, client: Client) -> None:
    running.change(faults=[{"status": 502, "times": 99}])
    with pytest.raises(BackendUnavailable, match=r"HTTP 502 \(request id r-\d+, trace id t-\d+\)"):
        await client.get(TASKS)
    assert client.requests == QUICK.tries


async def test_a_call_that_hangs_ends_by_our_own_timeout(running: RunningPlatform, client: Client) -> None:
    running.change(faults=[{"hang_seconds": 5.0, "times": 99}])
    with pytest.raises(BackendUnavailable, match="ReadTimeout"):
        await client.get(TASKS)


@pytest.mark.parametrize(
    "fault",
    [{"status": 503}, {"status": 504}, {"status": 408}, {"status": 409}, {"hang_seconds": 3.0}, {"body": "<html>"}],
    ids=["503", "504", "408", "409", "hang", "page"],
)
async def test_a_creation_without_a_clear_answer_is_sent_once_and_may_have_worked(
    running: RunningPlatform, client: Client, fault: dict[str, object]
) -> None:
    running.change(faults=[{"method": "POST", "after": True, **fault}])
    with pytest.raises(AnswerLost):
        await client.create(TASKS, BODY, headers={}, secrets=())
    assert creations(running) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 429}, BackendUnavailable),
        ({"status": 400}, Refused),
        ({"envelope_false": "the quota is exceeded"}, Refused),
        ({"status": 403}, AccessDenied),
    ],
)
async def test_a_creation_that_was_turned_away_is_told_as_such(
    running: RunningPlatform, client: Client, fault: dict[str, object], kind: type[Exception]
) -> None:
    running.change(faults=[{"method": "POST", **fault}])
    with pytest.raises(kind) as caught:
        await client.create(TASKS, BODY, headers={}, secrets=())
    assert not isinstance(caught.value, AnswerLost)
    assert creations(running) == 1


async def test_a_creation_that_was_never_sent_is_told_as_such(settings: Settings) -> None:
    client = Client(settings.model_copy(update={"host": "http://127.0.0.1:9"}), QUICK)
    with pytest.raises(BackendUnavailable) as caught:
        await client.create(TASKS, BODY, headers={}, secrets=())
    assert not isinstance(caught.value, AnswerLost)
    await client.close()


async def test_a_wrong_secret_is_told_with_its_mend(running: RunningPlatform) -> None:
    client = Client(connection(running.url).model_copy(update={"password": Hidden("sk-wrong")}), QUICK)
    with pytest.raises(AccessDenied, match="access key id and secret"):
        await client.get(TASKS)
    await client.close()


async def test_status_false_under_200_is_an_error(running: RunningPlatform, client: Client) -> None:
    running.change(faults=[{"envelope_false": "the pool is closed"}], missing="envelope")
    with pytest.raises(Refused, match="the pool is closed"):
        await client.get(TASKS)
    with pytest.raises(NotFound):
        await client.get(f"{TASKS}/nope")


async def test_all_pages_are_read_also_where_the_platform_caps_them(running: RunningPlatform, client: Client) -> None:
    for _ in range(7):
        await client.create(TASKS, BODY, headers={}, secrets=())
    running.change(max_page=3)
    rows = await client.rows(TASKS)
    assert len({row["uuid"] for row in rows}) == 7
    assert running.call(lambda: running.platform.requests.count(("GET", TASKS))) == 3


async def test_all_pages_are_read_where_the_platform_does_not_say_how_many_there_are(
    running: RunningPlatform, client: Client
) -> None:
    for _ in range(5):
        await client.create(TASKS, BODY, headers={}, secrets=())
    running.change(max_page=2, page_total=False)
    assert len({row["uuid"] for row in await client.rows(TASKS)}) == 5


async def test_a_list_that_comes_whole_for_every_page_is_read_once(running: RunningPlatform, client: Client) -> None:
    whole = '{"status": true, "msg": "", "data": [{"name": "a"}]}'
    running.change(faults=[{"path": "datasets", "body": whole, "times": 9}])
    assert await client.rows("/data-service/v1/datasets") == [{"name": "a"}]


async def test_a_list_that_comes_whole_while_its_rows_change_is_read_once(
    running: RunningPlatform, client: Client
) -> None:
    def page(seconds: int) -> str:
        return f'{{"status": true, "msg": "", "rows": [{{"uuid": "u", "duration": {seconds}}}]}}'

    running.change(faults=[{"path": "/tasks$", "body": page(seconds)} for seconds in range(9)])
    assert await client.rows(TASKS) == [{"uuid": "u", "duration": 0}]


async def test_a_list_without_an_end_is_an_error_that_says_so(
    running: RunningPlatform, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MOST_PAGES", 3)
    for _ in range(5):
        await client.create(TASKS, BODY, headers={}, secrets=())
    running.change(max_page=1, page_total=False)
    with pytest.raises(BackendUnavailable, match=r"GET .*/tasks: 3 pages have come, 3 rows.* has no end"):
        await client.rows(TASKS)


async def test_a_lost_answer_has_its_ids_however_long_the_platforms_words_are(
    running: RunningPlatform, client: Client
) -> None:
    running.change(faults=[{"method": "POST", "status": 503, "envelope_false": "overloaded " * 100}])
    with pytest.raises(AnswerLost, match=r"HTTP 503 \(request id r-\d+, trace id t-\d+\): overloaded"):
        await client.create(TASKS, BODY, headers={}, secrets=())


@pytest.mark.parametrize("half", ['{"status": true, "msg":', "", "<html>Sign in</html>"])
async def test_half_an_answer_is_asked_for_again(running: RunningPlatform, client: Client, half: str) -> None:
    running.change(faults=[{"body": half}])
    assert (await client.get(TASKS)).rows == []
    running.change(faults=[{"body": half, "times": 9}])
    with pytest.raises(BackendUnavailable, match="no JSON object"):
        await client.get(TASKS)


async def test_a_gateways_404_is_an_outage_and_loses_no_task(running: RunningPlatform, client: Client) -> None:
    running.change(faults=[{"status": 404, "body": "404 page not found", "times": 9}])
    with pytest.raises(BackendUnavailable, match="/sfapi"):
        await client.get(f"{TASKS}/nope")


async def test_no_secret_is_in_an_error_though_the_platform_repeats_it(
    running: RunningPlatform, client: Client
) -> None:
    said = f"wrong body: token-12345 signed with {KEY_SECRET}"
    running.change(faults=[{"status": 400, "envelope_false": said}, {"status": 503, "envelope_false": said}])
    for _ in range(2):
        with pytest.raises((Refused, AnswerLost)) as caught:
            await client.create(TASKS, BODY, headers={}, secrets=["token-12345"])
        told = f"{caught.value} {vars(caught.value)}"
        assert "token-12345" not in told
        assert KEY_SECRET not in told
        assert "***" in told


async def test_a_proxy_is_the_connections_decision_alone(
    monkeypatch: pytest.MonkeyPatch, running: RunningPlatform
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    client = Client(connection(running.url), QUICK)
    assert (await client.get(TASKS)).rows == []
    await client.close()
    proxied = Client(connection(running.url, proxy="http://user:pass-word@127.0.0.1:9"), QUICK)
    with pytest.raises(BackendUnavailable) as caught:
        await proxied.get(TASKS)
    assert "pass-word" not in str(caught.value)
    assert "through the proxy 127.0.0.1:9" in str(caught.value)
    await proxied.close()


async def test_the_clock_is_compared_with_the_platforms(client: Client) -> None:
    assert client.skew_seconds is None
    await client.get(TASKS)
    assert client.skew_seconds is not None
    assert abs(client.skew_seconds) < 30


@pytest.mark.parametrize(
    ("change", "words"),
    [({"host": ""}, "host"), ({"login": ""}, "login"), ({"password": None}, "password"), ({"region": None}, "region")],
)
def test_what_a_connection_lacks_is_named(change: dict[str, object], words: str) -> None:
    settings = connection("https://console.example.test/sfapi").model_copy(update=change)
    with pytest.raises(UsageError, match=words):
        Client(settings, QUICK)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"region": "北京"}, "region"),
        ({"cluster": "al\npha"}, "cluster"),
        ({"login": "ak-demo "}, "login"),
        ({"password": Hidden("sk-demo\n")}, "password"),
        ({"host": "ftp://console.example.test"}, "is no URL"),
        ({"host": "https://[console/sfapi"}, "is no URL"),
        ({"host": "https://ak:sk-demo@console.example.test/sfapi"}, "had a login"),
        ({"proxy": "proxy.example.test:3128"}, "proxy"),
    ],
)
def test_what_can_not_be_sent_is_refused_before_anything_is(change: dict[str, object], words: str) -> None:
    settings = connection("https://console.example.test/sfapi").model_copy(update=change)
    with pytest.raises(UsageError, match=words) as caught:
        Client(settings, QUICK)
    assert "sk-demo" not in str(caught.value)


def test_a_base_url_without_tls_is_refused() -> None:
    with pytest.raises(UsageError, match="https"):
        Client(connection("http://console.example.test/sfapi"), QUICK)


def test_the_path_of_a_creation_is_the_documented_one() -> None:
    assert CREATE == ("POST", TASKS)
