"""Runs of several attempts, in one process and step by step."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.core.attempts import Ledger, first_attempt, next_attempt, rest
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind, RunEnd, Totals
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.run import run
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, QueuePlace, Status
from siflow_provider.errors import BackendUnavailable
from siflow_provider.spec.resolve import ResolvedTask
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Line, Script, moment, now, phases, room
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime

LOST_NODE = Failure(category=FailureClass.NODE_LOST, summary="node n7 is gone", transient=True)
RETRIES = {"max_retries": 3}


def failing(seconds: float = 100.0, failure: Failure = LOST_NODE) -> Script:
    start = asyncio.get_running_loop().time()
    steps = phases((0, Phase.RUNNING), (seconds, Phase.FAILED), failure=failure, admitted_at=moment(start))
    return Script(steps, [Line(1, "begun")])


GOOD = Script(phases((0, Phase.RUNNING), (50, Phase.SUCCEEDED)), [Line(1, "begun again")])


async def run_to_end(
    backend: ScriptedBackend, task: ResolvedTask, policy: FollowPolicy | None = None
) -> tuple[RunEnd, Recorder, list[JobRef]]:
    told, refs = Recorder(), list[JobRef]()
    ended = await run(
        backend,
        task,
        context(),
        policy or follow_policy(task),
        told,
        quota="require",
        on_ref=refs.append,
        clock=now,
    )
    return ended, told, refs


async def test_a_lost_node_is_survived_inside_one_try() -> None:
    backend = ScriptedBackend(failing(), failing(), GOOD)
    ended, told, refs = await run_to_end(backend, make_task(fault_tolerance=RETRIES))
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert [ref.attempt for ref in refs] == [1, 2, 3]
    assert [note for note in told.notes if note.startswith("attempt")] == [
        "attempt 2 of 4 in 1 s: node-lost: node n7 is gone",
        "attempt 3 of 4 in 2 s: node-lost: node n7 is gone",
    ]
    assert told.lines == ["master-0: begun", "master-0: begun", "master-0: begun again"]
    assert asyncio.get_running_loop().time() == pytest.approx(100 + 1 + 100 + 2 + 50, abs=1)
    assert ended.summary()["attempts"] == 3
    assert [manifest.context.identity.attempt for manifest in backend.submitted] == [1, 2, 3]
    assert [call for call in backend.calls if call.startswith("finish")] == ["finish attempt 3"]


async def test_totals_are_of_all_attempts() -> None:
    first = Script(
        phases(
            (0, Phase.FAILED), failure=LOST_NODE, submitted_at=moment(0), admitted_at=moment(0),
            ended_at=moment(0) , queued_seconds=10.0, gpus=2.0,
        )
    )  # fmt: skip
    second = Script(
        phases(
            (0, Phase.SUCCEEDED), submitted_at=moment(0), admitted_at=moment(0), ended_at=moment(3600),
            queued_seconds=5.0, gpus=2.0,
        )
    )  # fmt: skip
    ended, _, _ = await run_to_end(ScriptedBackend(first, second), make_task(fault_tolerance=RETRIES))
    summary = ended.summary()
    assert (summary["queued_seconds"], summary["running_seconds"], summary["gpu_hours"]) == (15.0, 3600.0, 2.0)
    assert ended.totals == Totals(queued_seconds=10.0)


async def test_retries_run_out() -> None:
    backend = ScriptedBackend(failing(), failing(), failing(), failing(), GOOD)
    ended, _, refs = await run_to_end(backend, make_task(fault_tolerance=RETRIES))
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert ended.outcome.failure == LOST_NODE.model_copy(update={"last_lines": ("begun",)})
    assert [ref.attempt for ref in refs] == [1, 2, 3, 4]


async def test_step_by_step_gives_what_one_process_gives() -> None:
    task = make_task(fault_tolerance=RETRIES)
    policy = follow_policy(task)
    whole, told, _ = await run_to_end(ScriptedBackend(failing(), GOOD), task)

    backend, parts = ScriptedBackend(failing(), GOOD), Recorder()
    step = await first_attempt(backend, task, context(), policy, parts, quota="require")
    first = await follow(backend, step.ref, step.policy, parts, cursor=step.cursor, clock=now)
    # what crosses the database between two legs is JSON
    kept = (
        Outcome.model_validate_json(first.model_dump_json()),
        Ledger.model_validate_json(step.ledger.model_dump_json()),
    )
    step = await next_attempt(backend, task, context(), policy, parts, outcome=kept[0], ledger=kept[1])
    second = await follow(backend, step.ref, step.policy, parts, cursor=step.cursor, clock=now)
    assert (parts.lines, parts.notes, parts.warnings) == (told.lines, told.notes, told.warnings)
    assert second.model_dump(exclude={"ref", "totals"}) == whole.outcome.model_dump(exclude={"ref", "totals"})


async def test_a_pause_that_was_made_elsewhere_is_not_made_twice() -> None:
    task, told = make_task(fault_tolerance=RETRIES), Recorder()
    backend, policy = ScriptedBackend(failing(), GOOD), follow_policy(task)
    step = await first_attempt(backend, task, context(), policy, told, quota="ignore")
    outcome = await follow(backend, step.ref, step.policy, told, clock=now)
    await rest(step.policy, told, outcome)
    ended = asyncio.get_running_loop().time()
    await next_attempt(
        backend, task, context(), policy, told, outcome=outcome, ledger=step.ledger, rested=True, quota="ignore"
    )
    assert asyncio.get_running_loop().time() == ended == pytest.approx(101, abs=0.5)
    assert len([note for note in told.notes if note.startswith("attempt 2 of 4")]) == 1


async def test_a_finished_run_has_no_next_attempt() -> None:
    backend, task = ScriptedBackend(GOOD), make_task()
    step = await first_attempt(backend, task, context(), FollowPolicy(), Recorder(), quota="ignore")
    outcome = await follow(backend, step.ref, step.policy, Recorder(), clock=now)
    with pytest.raises(ValueError, match="succeeded"):
        await next_attempt(backend, task, context(), FollowPolicy(), Recorder(), outcome=outcome, ledger=step.ledger)


async def test_an_adopted_attempt_knows_what_the_ones_before_it_took() -> None:
    old = phases(
        (0, Phase.FAILED), failure=LOST_NODE, admitted_at=moment(0), ended_at=moment(60), queued_seconds=7.0, gpus=1.0
    )
    backend = ScriptedBackend(Script(old), GOOD)
    await backend.submit(backend.render(make_task(), context()))
    await backend.submit(backend.render(make_task(), context(attempt=2)))
    step = await first_attempt(backend, make_task(), context(), FollowPolicy(), Recorder(), quota="require")
    assert step.adopted
    assert step.ledger.totals == Totals(queued_seconds=7.0, running_seconds=60.0, gpu_seconds=60.0)


async def test_an_attempt_is_adopted_although_the_backend_gives_no_answer_at_first() -> None:
    class Slow(ScriptedBackend):
        faults = 2

        async def status(self, ref: JobRef) -> Status:
            if self.faults:
                self.faults -= 1
                raise BackendUnavailable("connection refused")
            return await super().status(ref)

    backend = Slow(failing(0), GOOD)
    await backend.submit(backend.render(make_task(), context()))
    await backend.submit(backend.render(make_task(), context(attempt=2)))
    told = Recorder()
    step = await first_attempt(backend, make_task(), context(), FollowPolicy(), told, quota="require")
    assert step.ref.attempt == 2
    assert told.warnings == [f"asking whose {step.ref.name} is: no answer, trying again (connection refused)"]


@pytest.mark.parametrize(("queue", "flavor"), [("queue-b", 1), ("queue-a", 0), ("elsewhere", 0)])
async def test_an_adopted_run_is_known_by_its_queue_to_be_on_its_instance(queue: str, flavor: int) -> None:
    task = two_instances()
    task = replace(task, flavors=tuple(replace(each, queue=f"queue-{each.instance}") for each in task.flavors))
    backend = ScriptedBackend(Script(phases((0, Phase.QUEUED), queue=QueuePlace(queue, 1))))
    await backend.submit(backend.render(task, context()))
    step = await first_attempt(backend, task, context(), FollowPolicy(), Recorder(), quota="require")
    assert (step.adopted, step.ledger.flavor) == (True, flavor)


QUEUED = Script(phases((0, Phase.QUEUED)))


def two_instances(**form: Any) -> ResolvedTask:
    """Return a task that lists instances a and b, and moves after ten minutes."""
    instances = [{"cpu": "1", "memory": "1Gi"}]
    compute = {"type": "on_demand", "instances": instances, "fallback_after": 600.0}
    return make_task(flavors=("a", "b"), compute=compute, **form)


async def test_a_task_moves_to_another_instance_that_has_room() -> None:
    backend = ScriptedBackend(QUEUED, GOOD, quotas=[room(now_=False), room(now_=False), room()])
    ended, told, refs = await run_to_end(backend, two_instances())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert "moving from a to b, which has room now; the place in the old queue is given up" in told.notes
    assert [ref.attempt for ref in refs] == [1, 2]
    assert backend.calls.index("delete") < backend.calls.index("submit 2")
    assert [manifest.task.flavors[0].instance for manifest in backend.submitted] == ["a", "b"]
    assert ended.summary()["queued_seconds"] == pytest.approx(600, abs=5)


async def test_a_task_stays_in_its_queue_while_no_other_instance_has_room() -> None:
    steps = phases((0, Phase.QUEUED), (1500, Phase.RUNNING), (1600, Phase.SUCCEEDED), queued_seconds=1500.0)
    backend = ScriptedBackend(Script(steps, [Line(1550, "begun")]), quotas=[room(now_=False)] * 4)
    ended, told, refs = await run_to_end(backend, two_instances())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert [ref.attempt for ref in refs] == [1]
    assert backend.calls.count("quota b") == 3  # at submit, after 600 s and after 1200 s
    assert "delete" not in backend.calls
    assert told.lines == ["master-0: begun"]


async def test_a_run_that_was_admitted_meanwhile_is_not_moved() -> None:
    steps = phases((0, Phase.QUEUED), (600.5, Phase.RUNNING), (700, Phase.SUCCEEDED))

    class SlowQuota(ScriptedBackend):
        async def quota(self, task: ResolvedTask, *, idle: bool = True) -> object:  # type: ignore[override]  # as its base
            if self.submitted:
                await asyncio.sleep(5)
            return await super().quota(task, idle=idle)

    backend = SlowQuota(Script(steps), quotas=[room(now_=False), room(now_=False), room()])
    ended, _, refs = await run_to_end(backend, two_instances())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert len(refs) == 1
    assert "delete" not in backend.calls


async def test_moves_cost_no_retries_and_their_waiting_counts_for_the_queue_timeout() -> None:
    task = two_instances(fault_tolerance={"max_retries": 1}, queue_timeout=1000.0)
    backend = ScriptedBackend(
        QUEUED, QUEUED, quotas=[room(now_=False), room(now_=False), room()] + [room(now_=False)] * 9
    )
    ended, _, refs = await run_to_end(backend, task)
    assert [ref.attempt for ref in refs] == [1, 2]
    assert ended.outcome.failure is not None
    assert "queue_timeout" in ended.outcome.failure.summary
    assert asyncio.get_running_loop().time() == pytest.approx(1000, abs=5)


async def test_after_a_move_all_retries_are_left() -> None:
    task = two_instances(fault_tolerance={"max_retries": 1})
    backend = ScriptedBackend(
        QUEUED, failing(), failing(), quotas=[room(now_=False), room(now_=False), room(), room(), room()]
    )
    ended, told, refs = await run_to_end(backend, task)
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert [ref.attempt for ref in refs] == [1, 2, 3]
    assert [note for note in told.notes if note.startswith("attempt")] == [
        "attempt 3 of 3 in 1 s: node-lost: node n7 is gone"
    ]


async def test_a_process_that_adopts_a_moved_run_knows_of_the_move() -> None:
    task = two_instances(fault_tolerance={"max_retries": 1}, queue_timeout=1000.0)
    backend = ScriptedBackend(
        QUEUED, QUEUED, quotas=[room(now_=False), room(now_=False), room()] + [room(now_=False)] * 9
    )
    first = asyncio.create_task(run_to_end(backend, task))
    await asyncio.sleep(800)
    first.cancel()  # its process dies, 200 s after the move
    step = await first_attempt(backend, task, context(), FollowPolicy(), Recorder(), quota="require")
    assert (step.adopted, step.ref.attempt) == (True, 2)
    assert step.policy.moves == step.ledger.moves == 1
    assert step.policy.queued_before == pytest.approx(600, abs=5)
    assert step.ledger.totals == Totals(queued_seconds=step.policy.queued_before)
    ended, _, refs = await run_to_end(backend, task)
    assert [ref.attempt for ref in refs] == [2]
    assert ended.outcome.failure is not None
    assert "queue_timeout" in ended.outcome.failure.summary
    assert asyncio.get_running_loop().time() == pytest.approx(1000, abs=5)


async def test_a_process_that_adopts_the_retry_after_a_move_has_lost_nothing() -> None:
    task = two_instances(fault_tolerance={"max_retries": 1})
    backend = ScriptedBackend(
        QUEUED, failing(), Script(phases((0, Phase.RUNNING))), quotas=[room(now_=False), room(now_=False), room()]
    )
    first = asyncio.create_task(run_to_end(backend, task))
    await asyncio.sleep(800)
    first.cancel()
    step = await first_attempt(backend, task, context(), FollowPolicy(), Recorder(), quota="require")
    assert (step.ref.attempt, step.ledger.moves, step.ledger.queued_before) == (3, 1, 0.0)
    assert step.ledger.totals.queued_seconds == pytest.approx(600, abs=5)


async def test_a_deadline_that_would_pass_in_the_back_off_ends_the_try_now() -> None:
    task = make_task(fault_tolerance=RETRIES)
    policy = follow_policy(task, deadline=moment(100.5))
    ended, _, refs = await run_to_end(ScriptedBackend(failing(), GOOD), task, policy)
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert ended.outcome.failure is not None
    assert ended.outcome.failure.category is FailureClass.NODE_LOST
    assert len(refs) == 1
