"""Endings by a clock: by time and not by traffic, each with its own reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, Phase, QueuePlace
from siflow_provider.errors import BackendError
from tests.unit.core.following import DAY, Followed, follow_script
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Line, Script, event, moment, now, phases, replica
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime


def time() -> float:
    return asyncio.get_running_loop().time()


def expect_failure(done: Followed, category: FailureClass, *words: str) -> Failure:
    assert done.outcome.kind is OutcomeKind.FAILED
    assert done.outcome.phase is Phase.FAILED
    assert done.outcome.failure is not None
    assert done.outcome.failure.category is category
    for word in words:
        assert word in done.outcome.failure.summary
    return done.outcome.failure


async def test_deadline_ends_a_silent_run_in_time() -> None:
    policy = FollowPolicy(deadline=moment(30), timezone="Asia/Shanghai")
    done = await follow_script(Script(phases((0, Phase.RUNNING)), watch_ends_every=5), policy)
    expect_failure(done, FailureClass.TIMEOUT, "execution_timeout", "2026-01-01 08:00:30 Asia/Shanghai")
    assert 30 <= time() < 35
    assert "stop by execution_timeout" in done.backend.calls


async def test_deadline_holds_while_the_backend_does_not_answer() -> None:
    script = Script(phases((0, Phase.RUNNING)), outages=[(10, DAY)])
    done = await follow_script(script, FollowPolicy(deadline=moment(60)))
    expect_failure(done, FailureClass.TIMEOUT, "execution_timeout")
    assert [warning for warning in done.told.warnings if "could not be stopped and may still run" in warning]
    assert time() < 600


async def test_deadline_counts_the_whole_try_and_not_this_follower() -> None:
    done = await follow_script(Script(phases((0, Phase.RUNNING))), FollowPolicy(deadline=moment(-5)))
    expect_failure(done, FailureClass.TIMEOUT, "execution_timeout")
    assert time() < 5


async def test_none_means_no_limit() -> None:
    steps = phases(
        (0, Phase.QUEUED), (30 * DAY, Phase.STARTING), (60 * DAY, Phase.RUNNING), (90 * DAY, Phase.SUCCEEDED)
    )
    done = await follow_script(Script(steps))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED


async def test_queue_timeout_tells_position_and_reason_and_deletes_the_job() -> None:
    steps = phases((0, Phase.QUEUED), queue=QueuePlace("gpu", 4, "needs 8 GPUs, 2 free"))
    done = await follow_script(Script(steps), FollowPolicy(queue_timeout=1800))
    expect_failure(done, FailureClass.TIMEOUT, "queue_timeout of 30m", "queue gpu, position 4: needs 8 GPUs, 2 free")
    assert 1800 <= time() < 1805
    assert done.backend.calls[-1] == "delete"
    assert done.outcome.totals.queued_seconds == pytest.approx(1800, abs=5)


async def test_queue_timeout_counts_the_time_before_a_move() -> None:
    policy = FollowPolicy(queue_timeout=1800, queued_before=1000.0)
    await follow_script(Script(phases((0, Phase.QUEUED))), policy)
    assert 800 <= time() < 805


async def test_start_timeout_tells_the_last_scheduling_trouble() -> None:
    steps = phases(
        (0, Phase.STARTING),
        admitted_at=moment(0),
        events=(event(1, "FailedScheduling: no node has label gpu=h100"),),
        replicas=(replica("worker-0", Phase.STARTING, reason="unschedulable"), replica("master-0", Phase.RUNNING)),
    )
    done = await follow_script(Script(steps, [Line(1, "chatty", "worker-9")]), FollowPolicy(start_timeout=30))
    failure = expect_failure(done, FailureClass.TIMEOUT, "start_timeout of 30s", "worker-0: unschedulable")
    assert failure.events == ("FailedScheduling: no node has label gpu=h100",)
    assert 30 <= time() < 35
    assert done.backend.calls[-1] == "delete"


async def test_start_timeout_never_counts_the_queue_and_spares_a_run_that_started() -> None:
    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"phase": Phase.QUEUED}),
        (3600.0, {"phase": Phase.STARTING, "admitted_at": moment(3600)}),
        (3625.0, {"phase": Phase.RUNNING, "admitted_at": moment(3600), "running_at": moment(3625)}),
        (4000.0, {"phase": Phase.STARTING, "admitted_at": moment(3600), "running_at": moment(3625)}),
        (5000.0, {"phase": Phase.RUNNING, "admitted_at": moment(3600), "running_at": moment(3625)}),
        (7200.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps), FollowPolicy(start_timeout=30))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED


async def test_a_requeue_starts_the_start_clock_anew() -> None:
    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"phase": Phase.STARTING, "admitted_at": moment(0)}),
        (20.0, {"phase": Phase.QUEUED, "admitted_at": moment(0)}),
        (500.0, {"phase": Phase.STARTING, "admitted_at": moment(500)}),
        (525.0, {"phase": Phase.RUNNING, "admitted_at": moment(500), "running_at": moment(525)}),
        (600.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps), FollowPolicy(start_timeout=30))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED


HANGING = phases((0, Phase.QUEUED), (5000, Phase.STARTING), (6000, Phase.RUNNING))


async def test_hang_is_found_with_the_stack_of_each_rank() -> None:
    stacks = {"worker-0": "Thread 1\n  all_reduce (train.py:7)\n", "master-0": "Thread 1\n  all_reduce (train.py:7)"}
    script = Script(HANGING, [Line(6100, "step 1"), Line(6200, "step 2", "worker-0")], stacks=stacks)
    done = await follow_script(script, FollowPolicy(hang_timeout=600))
    failure = expect_failure(done, FailureClass.HANG, "hang_timeout of 10m")
    assert failure.last_lines == ("step 1",)
    assert 6800 <= time() < 6805
    dumps = [warning for warning in done.told.warnings if warning.startswith("stack of")]
    assert dumps == [f"stack of {name}:\nThread 1\n  all_reduce (train.py:7)" for name in ("master-0", "worker-0")]
    assert done.told.lines == ["master-0: step 1"]  # the worker is read for signs of work, and was not asked for
    assert "stop by hang_timeout of 10m" in done.backend.calls


async def test_silence_is_no_hang_while_the_logs_can_not_be_read() -> None:
    lines = [Line(100, "a"), Line(30000, "b")]
    script = Script(phases((0, Phase.RUNNING), (30100, Phase.SUCCEEDED)), lines, log_outages=[(200, 29900)])
    done = await follow_script(script, FollowPolicy(hang_timeout=600))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert "dump_stacks" not in done.backend.calls


async def test_a_run_that_goes_on_during_the_dump_is_no_hang() -> None:
    class SlowDump(ScriptedBackend):
        async def dump_stacks(self, ref: object) -> dict[str, str]:
            self.calls.append("dump_stacks")
            await asyncio.sleep(20)
            return {}

    backend, told = (
        SlowDump(Script(phases((0, Phase.RUNNING), (1200, Phase.SUCCEEDED)), [Line(610, "slow step")])),
        Recorder(),
    )
    ref = await backend.submit(backend.render(make_task(), context()))
    outcome = await follow(backend, ref, FollowPolicy(hang_timeout=600), told, clock=now)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert "the run goes on after all" in told.notes


async def test_a_hang_is_retried_where_retries_are_left() -> None:
    done = await follow_script(Script(HANGING), FollowPolicy(hang_timeout=600, max_retries=1))
    assert done.outcome.kind is OutcomeKind.RETRY
    assert done.outcome.failure is not None
    assert done.outcome.failure.category is FailureClass.HANG


async def test_after_fallback_time_in_the_queue_the_holder_is_asked_to_move() -> None:
    done = await follow_script(Script(phases((0, Phase.QUEUED))), FollowPolicy(fallback_after=600))
    assert done.outcome.kind is OutcomeKind.MOVE
    assert done.outcome.failure is None
    assert 600 <= time() < 605
    assert not [call for call in done.backend.calls if call.startswith(("stop", "delete"))]


async def test_a_run_that_ends_well_before_the_stop_hits_has_succeeded() -> None:
    script = Script(phases((0, Phase.RUNNING), (31, Phase.SUCCEEDED)), ignores_stop=True)
    done = await follow_script(script, FollowPolicy(deadline=moment(30)))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED


async def test_a_run_that_ignores_the_stop_does_not_hold_the_task() -> None:
    done = await follow_script(Script(phases((0, Phase.RUNNING)), ignores_stop=True), FollowPolicy(deadline=moment(30)))
    expect_failure(done, FailureClass.TIMEOUT)
    assert [warning for warning in done.told.warnings if "has not ended yet" in warning]
    assert time() < 120


async def test_a_follower_that_starts_after_the_stop_gives_the_same_ending() -> None:
    steps = phases((0, Phase.STOPPED), stopped_by="queue_timeout of 30m")
    done = await follow_script(Script(steps), FollowPolicy(queue_timeout=1800))
    expect_failure(done, FailureClass.TIMEOUT, "queue_timeout of 30m")


async def test_a_dump_that_fails_is_told_and_the_hang_ends_all_the_same() -> None:
    class NoDump(ScriptedBackend):
        async def dump_stacks(self, ref: object) -> dict[str, str]:
            raise BackendError("py-spy may not look into other processes.")

    backend, told = NoDump(Script(HANGING)), Recorder()
    ref = await backend.submit(backend.render(make_task(), context()))
    outcome = await follow(backend, ref, FollowPolicy(hang_timeout=600), told, clock=now)
    assert outcome.kind is OutcomeKind.FAILED
    assert "no stack dump could be taken: py-spy may not look into other processes." in told.warnings


async def test_a_job_that_can_not_be_deleted_is_named() -> None:
    class Stubborn(ScriptedBackend):
        async def delete(self, ref: object) -> None:
            raise BackendError("a finalizer is stuck.")

    backend, told = Stubborn(Script(phases((0, Phase.QUEUED)))), Recorder()
    ref = await backend.submit(backend.render(make_task(), context()))
    outcome = await follow(backend, ref, FollowPolicy(queue_timeout=60), told, clock=now)
    assert outcome.kind is OutcomeKind.FAILED
    assert told.warnings == [f"{ref.name} could not be deleted: a finalizer is stuck."]


async def test_no_clock_ends_somebody_elses_run() -> None:
    policy = FollowPolicy(
        own=False, deadline=moment(30), queue_timeout=1, start_timeout=1, hang_timeout=1, image_pull_retries=0,
        fallback_after=1,
    )  # fmt: skip
    steps = phases((0, Phase.QUEUED), (50, Phase.STARTING), (100, Phase.RUNNING), (200, Phase.SUCCEEDED))
    done = await follow_script(Script(steps), policy)
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert [call for call in done.backend.calls if call.startswith(("stop", "delete", "dump"))] == []
