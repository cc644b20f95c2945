"""The legs of a try, one after another, on real processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred

from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.triggers.run import RunTrigger

Maker = Callable[..., tuple[PyTorchJobOperator, dict[str, Any]]]


def execute(operator: PyTorchJobOperator, context: dict[str, Any]) -> Any:
    """Call `execute` as Airflow's task runner does, its safeguard told that this is no nested call."""
    from airflow.sdk.bases.operator import ExecutorSafeguard

    token = ExecutorSafeguard.tracker.set(operator)
    try:
        return operator.execute(context)  # type: ignore[arg-type]
    finally:
        ExecutorSafeguard.tracker.reset(token)


def deferred(operator: PyTorchJobOperator, context: dict[str, Any]) -> RunTrigger:
    with pytest.raises(TaskDeferred) as caught:
        execute(operator, context)
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    return trigger


def with_backend(home: Path, ask: Callable[[Any], Any]) -> Any:
    async def answer() -> Any:
        async with make_backend(Settings(backend="local", state_dir=str(home))) as backend:
            return await ask(backend)

    return asyncio.run(answer())


def statuses(home: Path) -> list[Status]:
    return list(with_backend(home, lambda backend: backend.runs()))


def delete(home: Path, ref: JobRef) -> None:
    with_backend(home, lambda backend: backend.delete(ref))


def test_same_try_that_starts_again_adopts_its_run(
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = deferred(*make("sleep 60"))
    second = deferred(*make("sleep 60"))
    assert second.data.ref == first.data.ref
    assert len(statuses(backend_home)) == 1
    assert f"adopted {first.data.ref.name}" in capsys.readouterr().out
    delete(backend_home, first.data.ref)


def test_new_try_ends_the_run_of_the_older_one_first(make: Maker, backend_home: Path) -> None:
    old = deferred(*make("sleep 60")).data.ref
    new = deferred(*make("sleep 60", try_number=2)).data.ref
    assert old.name != new.name
    phases = {status.ref.name: status.phase for status in statuses(backend_home)}
    assert phases[old.name] is Phase.STOPPED
    assert not phases[new.name].terminal
    delete(backend_home, new)


def test_detached_run_of_an_older_try_is_left_alone(
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = deferred(*make("sleep 60", on_kill_action="detach")).data.ref
    new = deferred(*make("sleep 60", try_number=2, on_kill_action="detach")).data.ref
    assert not any(status.phase.terminal for status in statuses(backend_home))
    assert f"{old.name} of an earlier try still runs" in capsys.readouterr().out
    for ref in (old, new):
        delete(backend_home, ref)


def test_run_that_is_over_needs_no_triggerer(make: Maker, backend_home: Path) -> None:
    operator, context = make("exit 0", deferrable=False)
    result = execute(operator, context)
    operator, context = make("exit 0")
    assert execute(operator, context)["name"] == result["name"]
    assert len(statuses(backend_home)) == 1


def test_sync_failure_says_what_failed_and_pushes_it(make: Maker, backend_home: Path) -> None:
    operator, context = make("echo out of data; exit 7", deferrable=False)
    with pytest.raises(AirflowException, match="out of data") as caught:
        execute(operator, context)
    assert not isinstance(caught.value, AirflowFailException)
    assert context["ti"].xcoms["return_value"]["failure"]["exit_code"] == 7
    operator, context = make("exit 7", deferrable=False, do_xcom_push=False, try_number=2)
    with pytest.raises(AirflowException):
        execute(operator, context)
    assert context["ti"].xcoms == {}


def test_form_that_is_wrong_once_rendered_fails_without_retry_and_without_a_run(
    make: Maker, backend_home: Path
) -> None:
    operator, context = make("{{ x }}", workers="{{ x }}")
    operator.command, operator.workers = "true", "many"
    with pytest.raises(AirflowFailException, match="workers"):
        execute(operator, context)
    assert statuses(backend_home) == []


def test_trigger_carries_neither_form_nor_secret(make: Maker, backend_home: Path) -> None:
    env = {"TOKEN": {"value": "canary-7391", "hidden": True}, "PLAIN": "plain-4455"}
    trigger = deferred(*make("sleep 60; echo command-8123", env=env))
    stored = str(trigger.serialize())
    for text in ("canary-7391", "plain-4455", "command-8123"):
        assert text not in stored
    assert RunTrigger(**trigger.serialize()[1]).data == trigger.data
    delete(backend_home, trigger.data.ref)
