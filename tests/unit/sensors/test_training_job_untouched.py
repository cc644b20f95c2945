"""TrainingJobSensor: somebody else's run is left as it is, however it ends, and its next attempt is waited for."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from siflow_provider import backends
from siflow_provider.core import successor
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase
from siflow_provider.core.veil import Veil
from siflow_provider.triggers import killed
from siflow_provider.triggers.run import RunEvent, RunTrigger
from tests.unit.core.script import Script, phases
from tests.unit.sensors import watched
from tests.unit.sensors.airflow_errors import TaskDeferred
from tests.unit.sensors.test_training_job import run, sensor

CURABLE = Failure(category=FailureClass.NODE_LOST, summary="node a is gone", transient=True)
WRONG = Failure(category=FailureClass.CODE, summary="exit code 1")
LONG_AGO, JUST_NOW = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=2)
ENDS: dict[str, dict[str, Any]] = {
    "succeeded": {"phase": Phase.SUCCEEDED},
    "wrong": {"phase": Phase.FAILED, "failure": WRONG},
    "curable": {"phase": Phase.FAILED, "failure": CURABLE},
    "stuck": {"phase": Phase.FAILED, "failure": CURABLE, "leftover": True},
    "stopped": {"phase": Phase.STOPPED, "stopped_by": "Airflow: the task was cleared"},
    "lost": {"phase": Phase.LOST},
}
DEADLINE = datetime.now(UTC) + timedelta(hours=1)
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be called outside of the Task Runner")


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.BACKENDS, "local", "tests.unit.sensors.watched:opened")
    monkeypatch.setattr("siflow_provider.triggers.store.Store._put", lambda *_: None)
    monkeypatch.setattr("siflow_provider.triggers.store.Store._get", lambda *_: None)


def script(end: str, *, ended_at: datetime = LONG_AGO) -> Script:
    return Script([(0, {"ended_at": ended_at, **ENDS[end]})])


def followed(ref: JobRef) -> RunTrigger:
    """Return the trigger with which a sensor waits for the run that was found, as the database gives it back."""
    found = {"ref": ref.model_dump(mode="json"), "veil": Veil().model_dump(mode="json"), "error": ""}
    event = {**found, "deadline": DEADLINE.isoformat()}
    with pytest.raises(TaskDeferred) as deferred:
        sensor(name=ref.name).resume_execution("run_found", {"event": event}, {})
    return RunTrigger(**json.loads(json.dumps(deferred.value.trigger.serialize()[1])))


@pytest.mark.parametrize("options", [{"deferrable": False}, {"mode": "reschedule"}, {}], ids=["poke", "resch", "defer"])
@pytest.mark.parametrize("end", ENDS)
def test_a_look_at_a_run_that_ended_touches_nothing(end: str, options: dict[str, Any]) -> None:
    backend = watched.play(script(end))
    ref = asyncio.run(watched.submit(backend))
    if end == "succeeded":
        assert run(sensor(name=ref.name, **options))["name"] == ref.name
    else:
        with pytest.raises(AirflowFailException):
            run(sensor(name=ref.name, **options))
    assert watched.touched(backend) == []


@pytest.mark.parametrize("end", ENDS)
async def test_a_trigger_that_sees_the_end_touches_nothing(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(successor, "_patience", lambda _: 0.0)
    backend = watched.play(script(end))
    event = await anext(followed(await watched.submit(backend)).run())
    told = RunEvent.model_validate(event.payload)
    assert (told.outcome.phase, told.successor) == (ENDS[end]["phase"], None)
    assert watched.touched(backend) == []


@pytest.mark.parametrize("state", ["failed", "success", None])
async def test_a_kill_of_the_sensor_touches_nothing(state: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = watched.play(Script(phases((0, Phase.RUNNING))))
    trigger = followed(await watched.submit(backend))
    trigger.task_instance = SimpleNamespace(  # type: ignore[assignment]
        dag_id="d", task_id="wait", run_id="r", map_index=-1, try_number=1
    )
    monkeypatch.setattr(killed, "_state", lambda _: state)
    await trigger.on_kill()
    await trigger.cleanup()
    assert watched.touched(backend) == []


def test_a_sensor_whose_time_is_over_touches_nothing() -> None:
    backend = watched.play(Script(phases((0, Phase.RUNNING))))
    which = sensor(name=asyncio.run(watched.submit(backend)).name, soft_fail=True)
    with pytest.raises(AirflowSkipException):
        which.resume_execution("__fail__", {"error": "Trigger timeout"}, {})
    assert watched.touched(backend) == []


async def test_the_attempt_that_its_owner_submits_after_a_failure_is_followed_for_the_rest_of_the_time() -> None:
    backend = watched.play(script("curable"), Script(phases((0, Phase.SUCCEEDED))))
    trigger = followed(await watched.submit(backend))
    second = await watched.submit(backend, attempt=2)
    event = await anext(trigger.run())
    before = datetime.now(UTC)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(name="x").resume_execution("run_ended", {"event": event.payload}, {})
    after = datetime.now(UTC)
    again = deferred.value.trigger
    assert again.data.ref == second
    assert DEADLINE - after <= deferred.value.timeout <= DEADLINE - before
    end = await anext(again.run())
    result = sensor(name="x").resume_execution("run_ended", {"event": end.payload}, {})
    assert (result["name"], result["attempts"]) == (second.name, 2)
    assert watched.touched(backend) == []


@pytest.mark.parametrize("end", ["curable", "wrong"])
def test_a_poking_sensor_waits_for_another_attempt_only_where_one_can_cure_the_failure(
    end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = watched.play(script(end, ended_at=datetime.now(UTC) - JUST_NOW), Script(phases((0, Phase.SUCCEEDED))))
    ref = asyncio.run(watched.submit(backend))
    which = sensor(name=ref.name, deferrable=False)
    if end == "wrong":
        with pytest.raises(AirflowFailException, match="exit code 1"):
            run(which)
        return
    assert which.poke({"ti": None}) is False  # type: ignore[typeddict-item]
    assert "UTC for another attempt by its owner" in capsys.readouterr().out
    second = asyncio.run(watched.submit(backend, attempt=2))
    assert run(which)["name"] == second.name
