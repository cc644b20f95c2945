"""What a user's action on a deferred task does to its run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.shared_data import remember, shared_folder
from siflow_provider.backends.local.store import StateDir
from siflow_provider.core import expiry
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.errors import BackendError
from tests.unit.backends.local.following import until
from tests.unit.triggers.airflow import Airflow, submitted, trigger_for, wait_phase


async def test_detached_run_is_left(airflow: Airflow, backend: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ref = await submitted(backend, "sleep 60")
    airflow.state = "failed"
    await trigger_for(ref, on_kill_action="detach").on_kill()
    assert not (await backend.status(ref)).phase.terminal
    assert f"the task was marked failed; {ref.name} is left running" in capsys.readouterr().out


async def test_kill_that_cannot_reach_the_backend_never_raises(
    airflow: Airflow, backend: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = await submitted(backend, "sleep 60")
    airflow.state = "failed"
    await trigger_for(ref, conn_id="nowhere").on_kill()
    assert f"could not stop {ref.name}" in capsys.readouterr().out


async def test_kill_whose_stop_is_refused_at_first_stops_the_run_all_the_same(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await submitted(backend, "sleep 60")
    answers, stop = [BackendError("the webhook says no.")], LocalBackend.stop

    async def refused_at_first(opened: LocalBackend, ref: JobRef, **more: Any) -> None:
        if answers:
            raise answers.pop()
        await stop(opened, ref, **more)

    monkeypatch.setattr(LocalBackend, "stop", refused_at_first)
    airflow.state = "failed"
    await trigger_for(ref).on_kill()
    assert (await backend.status(ref)).phase is Phase.STOPPED


async def test_kill_whose_stop_is_always_refused_says_what_is_left_and_how_to_end_it(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = await submitted(backend, "sleep 60")

    async def refused(*_: Any, **__: Any) -> None:
        raise BackendError("the webhook says no.")

    airflow.state = "failed"
    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "stop", refused)
        patched.setattr(expiry, "_STOP_TRIES", 2)
        await trigger_for(ref).on_kill()
    out = capsys.readouterr().out
    assert f"{ref.name} could not be stopped and may still run: the webhook says no." in out
    assert f"`siflow-provider stop {ref.name}` ends it" in out
    assert f"{ref.name} is stopped" not in out


async def test_kill_that_takes_longer_than_airflow_waits_removes_the_data_that_is_to_go(
    airflow: Airflow, backend: Any, tmp_path: Path
) -> None:
    ref = await submitted(backend, "trap '' TERM; echo begun; while :; do sleep 0.1; done")
    folder = shared_folder(tmp_path, ref.task_uuid)
    folder.mkdir(parents=True)
    remember(StateDir(tmp_path / "runs"), ref.task_uuid, tmp_path)
    airflow.state = "failed"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):  # Airflow cancels after a second
            await trigger_for(ref).on_kill()
    assert folder.exists()
    await wait_phase(backend, ref, Phase.STOPPED)
    await until(lambda: not folder.exists())


async def test_where_airflow_has_no_on_kill_cleanup_stops_after_a_user_action_only(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(BaseTrigger, "on_kill", raising=False)
    ref = await submitted(backend, "sleep 60")
    trigger = trigger_for(ref)
    await trigger.cleanup()
    assert not (await backend.status(ref)).phase.terminal
    airflow.state = "failed"
    await trigger.cleanup()
    await wait_phase(backend, ref, Phase.STOPPED)
