"""A connection id becomes settings, in a worker's way and in a triggerer's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from siflow_provider.backends.connection import CNCF_OPTIONS, EXTRA_KEYS
from siflow_provider.errors import BackendUnavailable, UsageError
from siflow_provider.hooks.process import mask, name_process, redacted
from siflow_provider.hooks.siflow import SiflowHook
from siflow_provider.provider_info import CONNECTION_FIELDS

CANARY = "c4n4ry-of-a-connection"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> str:
    extra = {"backend": "local", "region": "here"}
    monkeypatch.setenv("AIRFLOW_CONN_LAB", json.dumps({"conn_type": "siflow", "password": CANARY, "extra": extra}))
    return "lab"


def test_settings_hold_what_the_connection_says(connection: str) -> None:
    settings = SiflowHook(connection).settings()
    assert settings.region == "here"
    assert settings.password is not None
    assert settings.password.reveal() == CANARY


async def test_the_event_loop_gets_the_same_settings(connection: str) -> None:
    assert await SiflowHook(connection).asettings() == SiflowHook(connection).settings()


def test_the_password_is_masked_in_logs_from_then_on(connection: str) -> None:
    SiflowHook(connection).settings()
    assert redacted(f"line with {CANARY}") == "line with ***"


def test_without_a_default_connection_this_machine_is_used() -> None:
    assert SiflowHook().settings().backend == "local"


async def test_without_a_default_connection_the_event_loop_uses_this_machine_too() -> None:
    assert (await SiflowHook().asettings()).backend == "local"


def test_an_admin_can_forbid_to_use_this_machine_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SIFLOW__LOCAL_WITHOUT_CONNECTION", "False")
    with pytest.raises(UsageError, match="AIRFLOW_CONN_SIFLOW_DEFAULT"):
        SiflowHook().settings()


def test_a_missing_connection_says_where_and_how_to_add_it() -> None:
    with pytest.raises(UsageError) as caught:
        SiflowHook("nowhere").settings()
    assert "no connection 'nowhere'" in str(caught.value)
    assert "AIRFLOW_CONN_NOWHERE" in str(caught.value)
    assert "triggerer" in str(caught.value)


async def test_a_triggerer_that_reads_another_connection_than_the_worker_says_so() -> None:
    with pytest.raises(UsageError, match=r"leads to the backend 'local' in the .*, but the run is on 'kubernetes'"):
        await SiflowHook().asettings(expected="kubernetes")
    assert (await SiflowHook().asettings(expected="local")).backend == "local"


class Channel:
    """What a worker asks; gives one answer to every question."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def send(self, _: object) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("kind", "raised", "backend"),
    [
        (ErrorType.CONNECTION_NOT_FOUND, False, "local"),
        (ErrorType.CONNECTION_NOT_FOUND, True, "local"),
        (ErrorType.API_SERVER_ERROR, False, None),
        (ErrorType.API_SERVER_ERROR, True, None),
        (None, True, None),
    ],
)
async def test_a_hiccup_of_airflow_is_no_missing_connection(
    monkeypatch: pytest.MonkeyPatch, kind: ErrorType | None, raised: bool, backend: str | None
) -> None:
    from airflow.sdk.execution_time import task_runner

    answer: object = ErrorResponse(error=kind) if kind is not None else None
    if raised:
        answer = AirflowRuntimeError(answer) if isinstance(answer, ErrorResponse) else OSError("broken pipe")
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Channel(answer), raising=False)
    if backend is None:
        no_answer = (BackendUnavailable, AirflowRuntimeError, OSError)  # Airflow 3.1 raises by itself
        with pytest.raises(no_answer):
            SiflowHook().settings()
        with pytest.raises(no_answer):
            await SiflowHook().asettings()
    else:
        assert SiflowHook().settings().backend == backend
        assert (await SiflowHook().asettings()).backend == backend


class Vault:
    """A secrets backend that is down."""

    def get_connection(self, conn_id: str) -> None:
        raise ConnectionError("503")


@pytest.mark.parametrize("conn_id", ["siflow_default", "lab_of_a_vault"])
async def test_a_secrets_backend_that_is_down_is_no_missing_connection(
    monkeypatch: pytest.MonkeyPatch, conn_id: str
) -> None:
    monkeypatch.setattr("airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: [Vault()])
    with pytest.raises(BackendUnavailable, match="secrets backend gave no answer"):
        SiflowHook(conn_id).settings()
    with pytest.raises(BackendUnavailable, match="secrets backend gave no answer"):
        await SiflowHook(conn_id).asettings()


async def test_a_connection_that_airflow_refuses_to_the_task_is_told_in_our_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: str) -> None:  # as Airflow 3.3 does for a connection of another team
        raise PermissionError("of another team")

    monkeypatch.setattr(BaseHook, "get_connection", refuse)
    with pytest.raises(UsageError, match=r"does not let this task read the connection 'lab': of another team"):
        SiflowHook("lab").settings()
    with pytest.raises(UsageError, match="does not let this task read the connection 'lab'"):
        await SiflowHook("lab").asettings()


def test_a_wrong_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BAD", "siflow:///?backnd=local")
    with pytest.raises(UsageError, match=r"connection 'bad': .*did you mean `backend`"):
        SiflowHook("bad").settings()


def test_the_catalog_is_the_arguments_then_the_connections_then_the_configured_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configured = tmp_path / "catalog.yaml"
    configured.write_text("identity: {org: configured, tenant: t}\n")
    monkeypatch.setenv("AIRFLOW__SIFLOW__CATALOG", str(configured))
    extra = {"catalog": "identity: {org: connection, tenant: t}\n"}
    monkeypatch.setenv("AIRFLOW_CONN_OWN", json.dumps({"conn_type": "siflow", "extra": extra}))
    orgs = [
        hook.catalog(override)
        for hook, override in [
            (SiflowHook("own"), {"identity": {"org": "argument", "tenant": "t"}}),
            (SiflowHook("own"), None),
            (SiflowHook(), None),
        ]
    ]
    assert [each.identity.org for each in orgs if each is not None] == ["argument", "connection", "configured"]


def test_without_any_catalog_there_is_none() -> None:
    assert SiflowHook().catalog() is None


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    extra = {"backend": "local", "state_dir": str(tmp_path)}
    monkeypatch.setenv("AIRFLOW_CONN_HERE", json.dumps({"conn_type": "siflow", "extra": extra}))
    return "here"


def test_testing_a_good_connection_says_what_answers(reachable: str) -> None:
    assert SiflowHook(reachable).test_connection() == (True, "backend local answers: 0 runs of ours")


async def test_a_connection_can_be_tested_where_an_event_loop_is_at_work(reachable: str) -> None:
    assert SiflowHook(reachable).test_connection()[0] is True


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"backend": "locl"}, "`backend`"),
        ({"backend": "platform"}, "lacks: host"),
        ({"catalog": "instances: 3\n"}, "instances"),
        ({"state_dir": "/proc/nowhere"}, "/proc/nowhere"),
    ],
)
def test_testing_a_bad_connection_says_what_to_mend(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, object], words: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps({"conn_type": "siflow", "extra": extra}))
    good, text = SiflowHook("wrong").test_connection()
    assert good is False
    assert words in text


class Widget:
    """What Airflow 3.1 itself puts in the place of wtforms' fields."""

    def __init__(self, label: str, **options: object) -> None:
        self.label = label
        self.options = options


def test_airflow_3_1_gets_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {name: type(name, (Widget,), {}) for name in ("BooleanField", "PasswordField", "StringField")}
    module = ModuleType("wtforms")
    module.__dict__.update(kinds)
    monkeypatch.setitem(sys.modules, "wtforms", module)
    widgets = SiflowHook.get_connection_form_widgets()
    assert set(widgets) == set(CONNECTION_FIELDS)
    assert {name for name, each in widgets.items() if isinstance(each, kinds["PasswordField"])} == {
        "kube_config",
        "proxy",
    }
    assert isinstance(widgets["in_cluster"], kinds["BooleanField"])
    assert set(SiflowHook.get_ui_field_behaviour()) == {"hidden_fields", "relabeling", "placeholders"}


def test_every_field_of_the_form_is_a_key_that_a_connection_may_hold() -> None:
    assert set(CONNECTION_FIELDS) <= {*EXTRA_KEYS, *CNCF_OPTIONS}
    assert set(EXTRA_KEYS) <= set(CONNECTION_FIELDS)


@pytest.mark.parametrize(
    ("module", "decoder", "name"),
    [
        ("airflow.jobs.triggerer_job_runner", "", "triggerer"),
        ("airflow.sdk.execution_time.comms", "TypeAdapter(ToDagProcessor)", "dag processor"),
        ("airflow.sdk.execution_time.comms", "TypeAdapter(ToTask)", "worker"),
    ],
)
def test_an_error_can_name_the_process(monkeypatch: pytest.MonkeyPatch, module: str, decoder: str, name: str) -> None:
    from airflow.sdk.execution_time import task_runner

    channel = type("Channel", (), {"__module__": module, "body_decoder": decoder})
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", channel(), raising=False)
    assert name_process() == name


async def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    await mask(["{\n  first-line-of-a-key\n}\nsecond-line-of-a-key"])
    assert redacted("a { first-line-of-a-key } second-line-of-a-key") == "a { *** } ***"
