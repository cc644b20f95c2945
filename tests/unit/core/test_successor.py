"""Which attempt follows one of somebody else's run, and how long it is looked for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from siflow_provider.core.outcome import Outcome, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, Status
from siflow_provider.core.successor import expected_until, successor_of
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, moment, phases
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime
CURABLE = Failure(category=FailureClass.NODE_LOST, summary="node a is gone", transient=True)
WRONG = Failure(category=FailureClass.CODE, summary="exit code 1")
RUNNING = Script(phases((0, Phase.RUNNING)))


async def submitted(backend: ScriptedBackend, attempt: int) -> JobRef:
    return await backend.submit(backend.render(make_task(), context(attempt=attempt)))


def ended(ref: JobRef, kind: OutcomeKind, failure: Failure | None) -> Outcome:
    return Outcome(kind=kind, ref=ref, phase=Phase(str(kind)), failure=failure)


@pytest.mark.parametrize(
    ("kind", "failure"), [(OutcomeKind.FAILED, CURABLE), (OutcomeKind.LOST, WRONG)], ids=["curable", "gone"]
)
async def test_an_attempt_that_the_owner_submits_a_minute_later_is_found(kind: OutcomeKind, failure: Failure) -> None:
    backend, told = ScriptedBackend(RUNNING, RUNNING), Recorder()
    first = await submitted(backend, 1)
    looking = asyncio.create_task(successor_of(backend, ended(first, kind, failure), told))
    await asyncio.sleep(60)
    second = await submitted(backend, 2)
    found = await looking
    assert found is not None
    assert found.ref == second
    assert told.notes == [f"{first.name} ended: looking 121 s for another attempt by its owner"]


async def test_a_run_that_nobody_goes_on_with_has_ended_after_two_minutes() -> None:
    backend = ScriptedBackend(RUNNING)
    first = await submitted(backend, 1)
    assert await successor_of(backend, ended(first, OutcomeKind.FAILED, CURABLE), Recorder()) is None
    assert 121 <= asyncio.get_running_loop().time() < 140


@pytest.mark.parametrize("there", [True, False])
async def test_a_failure_that_no_attempt_cures_is_looked_behind_once(there: bool) -> None:
    backend = ScriptedBackend(RUNNING, RUNNING)
    first = await submitted(backend, 1)
    second = await submitted(backend, 2) if there else None
    found = await successor_of(backend, ended(first, OutcomeKind.FAILED, WRONG), Recorder())
    assert (None if found is None else found.ref) == second
    assert asyncio.get_running_loop().time() == 0


async def test_a_backend_without_an_answer_shows_no_other_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, told = ScriptedBackend(RUNNING), Recorder()
    first = await submitted(backend, 1)

    async def refuse(*_: Any, **__: Any) -> None:
        raise RUNNING.fault

    monkeypatch.setattr(backend, "find_latest", refuse)
    assert await successor_of(backend, ended(first, OutcomeKind.FAILED, CURABLE), told) is None
    assert "no answer now: connection refused" in told.notes[0]


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"phase": Phase.FAILED, "failure": CURABLE}, 122),
        ({"phase": Phase.STOPPED, "stopped_by": "hang_timeout of 10m"}, 122),
        ({"phase": Phase.LOST}, 122),
        ({"phase": Phase.FAILED, "failure": WRONG}, None),
        ({"phase": Phase.STOPPED, "stopped_by": "mia"}, None),
        ({"phase": Phase.SUCCEEDED}, None),
        ({"phase": Phase.LOST, "ended_at": None}, None),
        ({"phase": Phase.FAILED, "failure": CURABLE, "ended_at": moment(-3600)}, None),
    ],
    ids=lambda value: "-".join(str(each) for each in value.values()) if isinstance(value, dict) else str(value),
)
def test_a_snapshot_tells_until_when_another_attempt_may_come(fields: dict[str, Any], seconds: float | None) -> None:
    ref = JobRef(backend="local", kind="PyTorchJob", name="bert-1-2", uid="u", task_uuid="t", attempt=2)
    status = Status(ref=ref, **{"ended_at": moment(0), **fields})
    now = moment(50)
    assert expected_until(status, now) == (now if seconds is None else moment(0) + timedelta(seconds=seconds))
