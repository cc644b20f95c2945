"""A connection id becomes settings, in a worker's way and in a triggerer's."""

from __future__ import annotations

import json

import pytest

from siflow_provider.errors import UsageError
from siflow_provider.hooks.siflow import SiflowHook

CANARY = "c4n4ry-53cr3t"


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
    from siflow_provider.hooks.process import redacted

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


def test_a_wrong_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BAD", "siflow:///?backnd=local")
    with pytest.raises(UsageError, match=r"connection 'bad': .*did you mean `backend`"):
        SiflowHook("bad").settings()
