"""A backend without room for a submission: who runs a task in one process waits as in a queue, and so ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siflow_provider.core.outcome import FollowPolicy, OutcomeKind, RunEnd
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.run import run
from siflow_provider.core.status import Failure, FailureClass, Phase
from siflow_provider.errors import BackendUnavailable, NoRoomYet
from siflow_provider.spec.resolve import ResolvedTask
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, moment, now, phases, room
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime

GOOD = Script(phases((0, Phase.RUNNING), (50, Phase.SUCCEEDED)))
FULL = "exceeded quota: jobs"


async def ended(
    backend: ScriptedBackend,
    task: ResolvedTask,
    told: Recorder,
    policy: FollowPolicy | None = None,
    stop_asked: asyncio.Future[str] | None = None,
) -> RunEnd:
    policy = policy or follow_policy(task)
    return await run(
        backend, task, context(), policy, told, quota="ignore", clock=now, stop_asked=stop_asked
    )  # fmt: skip


def full(*scripts: Script, times: int = 999, **options: Any) -> ScriptedBackend:
    backend = ScriptedBackend(*scripts, **options)
    backend.submit_faults = [NoRoomYet(FULL) for _ in range(times)]
    return backend


def passed() -> float:
    return asyncio.get_running_loop().time()


async def test_a_run_without_room_waits_for_it_says_so_once_and_counts_the_time_as_queued() -> None:
    backend, told = full(GOOD, times=20), Recorder()
    end = await ended(backend, make_task(), told)
    assert end.outcome.kind is OutcomeKind.SUCCEEDED
    assert told.warnings == [f"no room for {end.outcome.ref.name}, waiting for it: {FULL}"]
    assert end.summary()["queued_seconds"] == pytest.approx(passed() - 50, abs=2)
    assert end.summary()["queued_seconds"] > 20 * 60 / 2


async def test_queue_timeout_ends_the_wait_with_the_result_and_the_alert_of_a_queue() -> None:
    backend, told = full(), Recorder()
    end = await ended(backend, make_task(queue_timeout="10m", alerts=({"events": ("failed",), "to": ("a",)},)), told)
    failure = end.outcome.failure
    assert failure is not None
    assert (end.outcome.kind, failure.category) == (OutcomeKind.FAILED, FailureClass.TIMEOUT)
    assert failure.summary == f"queue_timeout of 10m: the task was in the queue longer than that ({FULL})"
    assert [event for event, _ in told.alerts] == ["failed"]
    assert end.summary()["queued_seconds"] == pytest.approx(600, abs=1)
    assert passed() == pytest.approx(600, abs=1)
    assert backend.submitted == []


async def test_the_whole_trys_deadline_ends_the_wait_in_its_own_words() -> None:
    task, told = make_task(queue_timeout="10m"), Recorder()
    end = await ended(full(), task, told, follow_policy(task, deadline=moment(300)))
    assert end.outcome.failure is not None
    assert end.outcome.failure.summary.startswith("execution_timeout: the time of the whole try was over")
    assert passed() == pytest.approx(300, abs=1)


async def test_who_wants_to_hear_of_a_long_queue_hears_of_the_wait_once_and_in_time() -> None:
    alerts = (
        {"events": ({"queued_too_long": "7m"},), "to": ("a",)},
        {"events": ({"queued_too_long": "20m"},), "to": ("b",)},
    )
    heard: list[tuple[float, str]] = []

    class Hears(Recorder):
        async def alert(self, rule: Any, event: str, status: Any, text: str) -> None:
            heard.append((passed(), f"{rule.connections[0]} {text}"))
            await super().alert(rule, event, status, text)

    end = await ended(full(), make_task(queue_timeout="1h", alerts=alerts), Hears())
    name = end.outcome.ref.name
    assert [text for _, text in heard] == [
        f"a {name} has been in the queue for 7m",
        f"b {name} has been in the queue for 20m",
    ]
    assert [at for at, _ in heard] == pytest.approx([420, 1200], abs=1)


async def test_a_stop_ends_the_wait_at_once() -> None:
    asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(ended(full(), make_task(), Recorder(), stop_asked=asked))
    await asyncio.sleep(1000)
    asked.set_result("Ctrl-C")
    end = await running
    assert (end.outcome.kind, end.outcome.phase) == (OutcomeKind.STOPPED, Phase.STOPPED)
    assert end.outcome.failure is not None
    assert end.outcome.failure.summary == f"the run was stopped by Ctrl-C while it waited for room: {FULL}"
    assert passed() == pytest.approx(1000, abs=1)


def moving(**form: Any) -> ResolvedTask:
    compute = {"type": "on_demand", "instances": [{"cpu": "1", "memory": "1Gi"}], "fallback_after": 600.0}
    return make_task(flavors=("a", "b"), compute=compute, **form)


class FullAfter(ScriptedBackend):
    """Has room for the first submission, and then for none until a moment."""

    until = float("inf")

    async def submit(self, manifest: Any) -> Any:
        if self.submitted and passed() < self.until:
            raise NoRoomYet(FULL)
        return await super().submit(manifest)


QUEUED = Script(phases((0, Phase.QUEUED)))


async def test_a_move_without_room_waits_for_the_new_place_and_gives_the_old_one_up_once() -> None:
    backend, told = FullAfter(QUEUED, GOOD, quotas=[room()] * 9), Recorder()
    backend.until = 5000
    end = await ended(backend, moving(), told)
    assert end.outcome.kind is OutcomeKind.SUCCEEDED
    assert [manifest.task.flavors[0].instance for manifest in backend.submitted] == ["a", "b"]
    assert backend.calls.count("delete") == 1
    assert end.summary()["queued_seconds"] == pytest.approx(passed() - 50, abs=2)


async def test_queue_timeout_counts_the_place_before_the_move_and_the_wait_after_it() -> None:
    backend, told = FullAfter(QUEUED, quotas=[room()] * 9), Recorder()
    end = await ended(backend, moving(queue_timeout=1000.0), told)
    assert end.outcome.failure is not None
    assert end.outcome.failure.summary.startswith("queue_timeout of 16m40s")
    assert passed() == pytest.approx(1000, abs=2)
    assert end.summary()["queued_seconds"] == pytest.approx(1000, abs=2)


async def test_what_belongs_to_a_job_and_finds_no_room_in_time_leaves_no_job_behind() -> None:
    backend, told = ScriptedBackend(QUEUED), Recorder()
    await backend.submit(backend.render(make_task(), context()))  # and the process died before its Secret
    backend.submit_faults = [NoRoomYet(FULL) for _ in range(99)]
    end = await ended(backend, make_task(queue_timeout="10m"), told)
    assert end.outcome.failure is not None
    assert "queue_timeout of 10m" in end.outcome.failure.summary
    assert backend.calls.count("delete") == 1


async def test_a_retry_of_which_half_was_made_when_the_backend_fell_silent_leaves_no_job_behind() -> None:
    class HalfMade(ScriptedBackend):
        async def submit(self, manifest: Any) -> Any:
            if len(self.submitted) == 2:
                raise NoRoomYet(FULL)
            ref = await super().submit(manifest)
            if manifest.context.identity.attempt == 1:
                return ref
            raise BackendUnavailable("no answer")

    lost = Failure(category=FailureClass.NODE_LOST, summary="node n7 is gone", transient=True)
    failed = Script(phases((0, Phase.RUNNING), (50, Phase.FAILED), failure=lost))
    backend = HalfMade(failed, QUEUED)
    end = await ended(backend, make_task(queue_timeout="10m", fault_tolerance={"max_retries": 1}), Recorder())
    assert end.outcome.failure is not None
    assert "queue_timeout of 10m" in end.outcome.failure.summary
    assert backend.runs_by_name[backend.submitted[1].name].gone


async def test_a_job_that_waits_for_what_belongs_to_it_is_not_there_while_the_task_waits_for_room() -> None:
    """Nobody would stop it where the task is marked failed meanwhile."""
    backend = ScriptedBackend(QUEUED, GOOD)
    ref = await backend.submit(backend.render(make_task(), context()))  # and the process died before its Secret
    backend.submit_faults = [NoRoomYet(FULL) for _ in range(3)]
    running = asyncio.create_task(ended(backend, make_task(), Recorder()))
    await asyncio.sleep(1)
    assert backend.runs_by_name[ref.name].gone
    assert (await running).outcome.kind is OutcomeKind.SUCCEEDED
    assert backend.calls.count("delete") == 1


async def test_a_job_that_runs_is_left_alone_whatever_finds_no_room_beside_it() -> None:
    backend = ScriptedBackend(Script(phases((0, Phase.RUNNING), (300, Phase.SUCCEEDED))))
    await backend.submit(backend.render(make_task(), context()))
    backend.submit_faults = [NoRoomYet(FULL) for _ in range(3)]
    assert (await ended(backend, make_task(), Recorder())).outcome.kind is OutcomeKind.SUCCEEDED
    assert "delete" not in backend.calls
