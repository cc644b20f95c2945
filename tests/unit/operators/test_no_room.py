"""A namespace without room: the task waits deferred, and its patience counts both waits once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.no_room import next_look
from siflow_provider.core.outcome import Outcome, OutcomeKind, Totals
from siflow_provider.core.protocol import Manifest
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase
from siflow_provider.errors import NoRoomYet
from siflow_provider.triggers.room import RoomEvent, RoomTrigger
from siflow_provider.triggers.run import RunEvent, RunTrigger
from tests.unit.operators.legs import Maker, deferred, delete, execute, resume, statuses

pytestmark = pytest.mark.runs


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return a switch: whether submissions find room."""
    there, submit = {"is": False}, LocalBackend.submit

    async def full(backend: LocalBackend, manifest: Manifest) -> JobRef:
        if not there["is"]:
            raise NoRoomYet("exceeded quota: one-job.")
        return await submit(backend, manifest)

    monkeypatch.setattr(LocalBackend, "submit", full)
    return there


def alerts_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the events of the alerts that are sent from now on."""
    told: list[str] = []

    async def send(_: object, event: str, *__: object) -> None:
        told.append(event)

    monkeypatch.setattr("siflow_provider.triggers.reporter.send_alert", send)
    return told


def waits(call: Any) -> tuple[RoomTrigger, RoomEvent]:
    with pytest.raises(TaskDeferred) as caught:
        call()
    path, kwargs = caught.value.trigger.serialize()
    assert path == "siflow_provider.triggers.room.RoomTrigger"
    trigger = RoomTrigger(**kwargs)
    event = RoomEvent.model_validate(trigger.event)
    assert caught.value.kwargs == {"carried": event.carried.model_dump(mode="json")}
    return trigger, event


def earlier(event: RoomEvent, seconds: float) -> RoomEvent:
    """Return the event as it is when the wait began so much earlier."""
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return event.model_copy(update={"carried": event.carried.model_copy(update={"waiting_since": since})})


def test_task_without_room_waits_deferred_and_is_submitted_once_there_is_some(
    make: Maker, backend_home: Path, room: dict[str, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    operator, context = make("sleep 60", queue_timeout="1h")
    _, first = waits(lambda: execute(operator, context))
    _, second = waits(lambda: resume(operator, context, first))
    assert second.carried.waiting_since == first.carried.waiting_since
    assert statuses(backend_home) == []
    assert capsys.readouterr().out.count("no room for unit-train-") == 1
    room["is"] = True
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, earlier(second, 900))
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    assert trigger.data.carried.ledger.queued_before == pytest.approx(900, abs=30)  # counts for queue_timeout
    assert trigger.data.carried.waiting_since is None
    delete(backend_home, trigger.data.ref)


def test_next_attempt_without_room_waits_deferred_as_well(
    make: Maker, backend_home: Path, room: dict[str, bool]
) -> None:
    room["is"] = True
    operator, context = make("sleep 60", fault_tolerance={"max_retries": 2})
    first = deferred(operator, context).data
    delete(backend_home, first.ref)
    room["is"] = False
    failure = Failure(category=FailureClass.NODE_LOST, summary="the node is gone", transient=True)
    outcome = Outcome(kind=OutcomeKind.RETRY, ref=first.ref, phase=Phase.FAILED, failure=failure)
    _, event = waits(lambda: resume(operator, context, RunEvent(outcome=outcome, carried=first.carried)))
    room["is"] = True
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, event)
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    assert trigger.data.ref.name == f"{first.ref.name}-2"
    delete(backend_home, trigger.data.ref)


def test_queue_timeout_without_room_ends_as_in_a_queue(
    make: Maker, backend_home: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = alerts_sent(monkeypatch)
    operator, context = make("true", queue_timeout="10m", alerts=[{"events": ["failed"], "to": ["oncall"]}])
    trigger, event = waits(lambda: execute(operator, context))
    assert datetime.fromisoformat(trigger.until) > datetime.now(UTC)
    with pytest.raises(AirflowException, match=r"timeout: queue_timeout of 10m: .*exceeded quota: one-job"):
        resume(operator, context, earlier(event, 601))
    result = context["ti"].xcoms["return_value"]
    assert (result["phase"], result["failure"]["category"]) == ("failed", "timeout")
    assert result["queued_seconds"] == pytest.approx(601, abs=30)
    assert told == ["failed"]
    assert statuses(backend_home) == []


def test_worker_that_waits_itself_ends_with_the_same_result_and_alert(
    make: Maker, backend_home: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = alerts_sent(monkeypatch)
    operator, context = make(
        "true", deferrable=False, queue_timeout="1s", alerts=[{"events": ["failed"], "to": ["oncall"]}]
    )
    with pytest.raises(AirflowException, match=r"timeout: queue_timeout of 1s: .*exceeded quota: one-job"):
        execute(operator, context)
    result = context["ti"].xcoms["return_value"]
    assert (result["phase"], result["failure"]["category"]) == ("failed", "timeout")
    assert told == ["failed"]
    assert statuses(backend_home) == []


def test_long_wait_for_room_is_told_once_and_at_its_moment(
    make: Maker, backend_home: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = alerts_sent(monkeypatch)
    operator, context = make("true", alerts=[{"events": [{"queued_too_long": "10m"}], "to": ["oncall"]}])
    kept: dict[str, Any] = {}
    monkeypatch.setattr("siflow_provider.triggers.store.Store._put", lambda _, __, values: kept.update(values))
    monkeypatch.setattr("siflow_provider.triggers.store.Store._get", lambda _, __, key: kept.get(key))
    _, event = waits(lambda: execute(operator, context))
    trigger, event = waits(lambda: resume(operator, context, earlier(event, 590)))
    left = (datetime.fromisoformat(trigger.until) - datetime.now(UTC)).total_seconds()
    assert left <= 10  # and not the two minutes of so long a wait
    assert told == []
    late = earlier(event, 601)
    for _ in range(2):
        waits(lambda: resume(operator, context, late))
    assert told == ["queued_too_long"]


def test_move_without_room_waits_deferred_and_goes_on_to_the_same_instance(
    make: Maker, backend_home: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def others(_backend: Any, _task: Any, current: int) -> int:
        asked.append(current)
        return 1

    async def queued(*_: Any) -> bool:
        return True

    monkeypatch.setattr("siflow_provider.core.attempts.ask_others", others)
    monkeypatch.setattr("siflow_provider.core.attempts._still_queued", queued)
    room["is"] = True
    instances = [{"cpu": "1", "memory": "256Mi"}, {"cpu": "1", "memory": "128Mi"}]
    compute = {"type": "on_demand", "instances": instances, "fallback_after": "10m"}
    operator, context = make("sleep 60", compute=compute)
    first = deferred(operator, context).data
    room["is"] = False
    outcome = Outcome(kind=OutcomeKind.MOVE, ref=first.ref, phase=Phase.QUEUED, totals=Totals(queued_seconds=600))
    _, event = waits(lambda: resume(operator, context, RunEvent(outcome=outcome, carried=first.carried)))
    assert statuses(backend_home) == []  # the old place is given up
    room["is"] = True
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, event)
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    ledger = trigger.data.carried.ledger
    assert trigger.data.ref.name == f"{first.ref.name}-2"
    assert (ledger.flavor, ledger.moves, ledger.moving) == (1, 1, None)
    assert ledger.totals.queued_seconds == pytest.approx(600, abs=30)
    assert asked == [0]
    delete(backend_home, trigger.data.ref)


async def test_wait_for_room_fires_at_its_moment_with_what_the_operator_needs() -> None:
    event = {"carried": {"prefix": "a"}}
    assert [each.payload async for each in RoomTrigger(event).run()] == [event]


def test_looks_for_room_become_rarer_and_never_come_behind_a_limit() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def pauses(*waited: float) -> list[float]:
        return [(next_look(at, at + timedelta(seconds=s)) - at).total_seconds() - s for s in waited]

    assert pauses(0, 60, 100, 9000) == [15, 30, 50, 120]
    assert next_look(at, at, at + timedelta(seconds=3)) == at + timedelta(seconds=3)
