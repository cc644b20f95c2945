"""Every verb outlives passing faults, keeps to what the server asked, and never repeats what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Denied,
    Expired,
    Invalid,
    NotFound,
    QuotaExceeded,
    Silent,
    Unavailable,
)
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, Fault, answers, black_hole, reset
from tests.unit.backends.kubernetes.cluster.things import PATH, THINGS, thing

ONE = THINGS.path("ml", "one")


async def first_event(api: Api) -> dict[str, Any]:
    async with aclosing(api.watch(PATH, {"resourceVersion": "1"})) as events:
        async for event in events:
            return event
    raise AssertionError("the watch ended")


CALLS: dict[str, Callable[[Api], Awaitable[Any]]] = {
    "get": lambda api: api.get(ONE),
    "list": lambda api: api.list(PATH),
    "create": lambda api: api.create(PATH, thing("two")),
    "patch": lambda api: api.patch(ONE, {"status": {"phase": "done"}}),
    "delete": lambda api: api.delete(ONE),
    "watch": first_event,
}


async def slow(_request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("never")


FAULTS: dict[str, tuple[Fault, ...]] = {
    "429": (answers(429, "TooManyRequests", Retry_After="2"),),
    "503": (answers(503, "ServiceUnavailable"),),
    "500 of a webhook": (answers(500, "InternalError", "failed calling webhook"),),
    "502 of a proxy": (answers(502),),
    "504": (answers(504, "Timeout"),),
    # the client library itself sends again once, on a connection that it had used before
    "reset": (reset, reset),
    "slow": (slow,),
}


@pytest.fixture
async def api(settings: Settings, pace: Pace) -> AsyncIterator[Api]:
    async with Api(settings, pace=replace(pace, connect=0.2, answer=0.2)) as opened:
        yield opened


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", CALLS)
async def test_a_passing_fault_is_outlived(
    verb: str, fault: str, server: FakeServer, api: Api, waits: list[float]
) -> None:
    server.put(PATH, thing("one"))
    await api.get(ONE)
    faults = FAULTS[fault] * 2
    server.faults[verb].extend(faults)
    await CALLS[verb](api)
    assert 1 <= len(waits) <= len(faults)
    assert all(wait >= 2 for wait in waits) == (fault == "429")
    assert not server.faults[verb]


@pytest.mark.parametrize("verb", CALLS)
async def test_a_fault_that_stays_is_given_up_as_unavailable(
    verb: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.faults[verb].extend([answers(503, "ServiceUnavailable", "no leader", Retry_After="7")] * 5)
    async with Api(settings, pace=replace(pace, tries=5)) as api:
        with pytest.raises(BackendUnavailable, match="no leader") as raised:
            await CALLS[verb](api)
    assert isinstance(raised.value, Unavailable)
    assert (raised.value.status, raised.value.retry_after) == (503, 7)
    # 7 seconds are longer than it would try at all
    assert server.count(verb) == 1


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 BadRequest", Invalid),
        ("403 Forbidden", Denied),
        ("404 NotFound", NotFound),
        ("405 MethodNotAllowed", ApiError),
        ("409 Conflict", Conflict),
        ("409 AlreadyExists", AlreadyExists),
        ("410 Expired", Expired),
        ("413 RequestEntityTooLarge", Invalid),
        ("422 Invalid", Invalid),
    ],
)
async def test_what_is_wrong_is_asked_once_and_told_in_the_servers_words(
    verb: str, status: str, kind: type[ApiError], server: FakeServer, api: Api
) -> None:
    code, reason = status.split()
    server.faults[verb].append(answers(int(code), reason, "what the server said"))
    if verb == "delete" and kind is NotFound:
        assert await api.delete(ONE) is False
        return
    with pytest.raises(kind, match="what the server said") as raised:
        await CALLS[verb](api)
    assert f"{raised.value.status} {raised.value.reason}" == status
    assert raised.value.detail == "what the server said"
    assert server.count(verb) == 1


async def test_a_full_resource_quota_is_worth_another_try_later(server: FakeServer, api: Api) -> None:
    said = 'pods "two" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4'
    server.faults["create"].append(answers(403, "Forbidden", said))
    with pytest.raises(QuotaExceeded, match="exceeded quota: team") as raised:
        await api.create(PATH, thing("two"))
    assert isinstance(raised.value, BackendUnavailable)
    assert not isinstance(raised.value, AccessDenied)
    assert server.count("create") == 1


async def test_a_resource_quota_that_changed_at_the_same_moment_is_asked_again(server: FakeServer, api: Api) -> None:
    said = 'Operation cannot be fulfilled on resourcequotas "team": the object has been modified; please apply your ...'
    server.faults["create"].extend([answers(409, "Conflict", said)] * 2)
    assert (await api.create(PATH, thing("two")))["metadata"]["name"] == "two"
    assert server.count("create") == 3


async def test_deleting_is_for_the_object_that_was_meant(server: FakeServer, api: Api) -> None:
    uid = server.put(PATH, thing("one"))["metadata"]["uid"]
    with pytest.raises(Conflict, match="UID"):
        await api.delete(ONE, uid="another")
    assert await api.delete(ONE, uid=uid) is True
    assert await api.delete(ONE, uid=uid) is False
    body = server.requests[-1].body
    assert (body["preconditions"], body["propagationPolicy"]) == ({"uid": uid}, "Background")


async def test_creating_has_unknown_fields_refused(server: FakeServer, api: Api) -> None:
    await api.create(PATH, thing("two"))
    await api.create(PATH, thing("three"), dry_run=True)
    assert [request.query for request in server.requests] == [
        {"fieldValidation": "Strict"},
        {"fieldValidation": "Strict", "dryRun": "All"},
    ]


async def test_a_list_is_read_to_its_last_page(server: FakeServer, api: Api) -> None:
    server.page = 3
    for number in range(8):
        server.put(PATH, thing(f"t{number}"))
    found = await api.list(PATH, {"labelSelector": "a=b"})
    assert [item["metadata"]["name"] for item in found["items"]] == [f"t{number}" for number in range(8)]
    assert server.count("list") == 3
    assert all(request.query["labelSelector"] == "a=b" for request in server.requests)


async def test_the_words_about_a_secret_are_not_repeated(server: FakeServer, api: Api) -> None:
    server.faults["create"].append(answers(422, "Invalid", 'Secret "x" is invalid: data[k]: Invalid value: "canary"'))
    with pytest.raises(Invalid) as raised:
        await api.create("/api/v1/namespaces/ml/secrets", {"metadata": {"name": "x"}})
    assert "canary" not in f"{raised.value} {raised.value!r} {raised.value.detail}"


async def test_a_silent_stream_is_told_from_one_that_ended(server: FakeServer, api: Api) -> None:
    server.faults["get"].append(black_hole)
    with pytest.raises(Silent, match="nothing came"):
        async with aclosing(api.stream(ONE, silence=0.1)) as chunks:
            _ = [chunk async for chunk in chunks]
    server.put(PATH, thing("one"))
    async with aclosing(api.stream(ONE, silence=0.1)) as chunks:
        assert b'"one"' in b"".join([chunk async for chunk in chunks])


async def test_an_answer_in_the_middle_of_which_the_connection_breaks_is_asked_again(
    server: FakeServer, api: Api
) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata": {"name"')
        assert request.transport is not None
        request.transport.abort()
        return response

    server.put(PATH, thing("one"))
    server.faults["get"].append(half)
    assert (await api.get(ONE))["metadata"]["name"] == "one"


async def test_what_a_proxy_answers_in_place_of_the_server_is_a_passing_fault(server: FakeServer, api: Api) -> None:
    async def page(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>maintenance</html>", content_type="text/html")

    server.put(PATH, thing("one"))
    server.faults["get"].append(page)
    assert (await api.get(ONE))["metadata"]["name"] == "one"


async def test_a_closed_connection_says_so(settings: Settings, pace: Pace) -> None:
    async with Api(settings, pace=pace) as api:
        pass
    with pytest.raises(BackendError, match="is closed"):
        await api.get(ONE)
