from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, LogLine, Phase, QueuePlace
from siflow_provider.errors import AccessDenied
from tests.unit.core.following import DAY, follow_script
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Line, Script, event, moment, now, phases, replica
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime

FULL_DAY = phases(
    (0, Phase.QUEUED),
    (3600, Phase.STARTING),
    (3700, Phase.RUNNING),
    (DAY, Phase.SUCCEEDED),
    admitted_at=moment(3600),
    running_at=moment(3700),
    ended_at=moment(DAY),
    queued_seconds=3600.0,
    gpus=8.0,
)


async def test_a_run_of_a_day_ends_well_and_shows_its_lines() -> None:
    lines = [Line(4000, "epoch 1"), Line(80000, "epoch 2"), Line(80000, "not asked for", "worker-0")]
    done = await follow_script(Script(FULL_DAY, lines))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.lines == ["master-0: epoch 1", "master-0: epoch 2"]
    assert done.told.notes == ["queued", "starting", "running", "succeeded"]
    assert done.told.warnings == []
    assert done.outcome.totals.queued_seconds == 3600
    assert done.outcome.totals.gpu_seconds == 8 * (DAY - 3600)
    assert done.told.cursors[-1] == done.outcome.cursor


async def test_queue_position_and_reason_are_noted_when_they_change() -> None:
    def queued(position: int, reason: str) -> dict[str, Any]:
        return {"phase": Phase.QUEUED, "queue": QueuePlace("gpu", position, reason)}

    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, queued(3, "needs 8 GPUs, 2 free")),
        (60.0, queued(2, "needs 8 GPUs, 2 free")),
        (90.0, {**queued(2, "needs 8 GPUs, 2 free"), "links": {"x": "y"}}),
        (120.0, {"phase": Phase.RUNNING, "replicas": (replica("master-0", Phase.RUNNING),)}),
        (180.0, {"phase": Phase.QUEUED, "queue": QueuePlace("gpu", 1, "preempted by eval-7", requeues=1)}),
        (200.0, {"phase": Phase.RUNNING, "replicas": (replica("master-0", Phase.RUNNING),)}),
        (300.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps))
    assert done.told.notes == [
        "queued in gpu, position 3: needs 8 GPUs, 2 free",
        "queued in gpu, position 2: needs 8 GPUs, 2 free",
        "running: 1 replica",
        "requeue 1: preempted by eval-7",
        "queued in gpu, position 1: preempted by eval-7",
        "running: 1 replica",
        "succeeded",
    ]


async def test_what_a_backend_says_in_the_same_words_is_told_once() -> None:
    place = QueuePlace("gpu", 2, "place 2 in its queue, 5 in the whole ClusterQueue")
    waiting = replica("worker-0", Phase.STARTING, rank=1, reason="waits for the scheduler")
    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"phase": Phase.QUEUED, "queue": place}),
        (10.0, {"phase": Phase.QUEUED, "queue": QueuePlace("gpu", 1)}),
        (20.0, {"phase": Phase.STARTING, "replicas": (waiting,)}),
        (30.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps))
    assert done.told.notes == [
        "queued in gpu, place 2 in its queue, 5 in the whole ClusterQueue",
        "queued in gpu, position 1",
        "starting",
        "worker-0 (rank 1) waits for the scheduler",
        "succeeded",
    ]


async def test_trouble_while_starting_is_told_once_and_as_no_more_than_a_warning() -> None:
    noisy = (event(5, "0/3 nodes are available"), event(9, "0/3 nodes are available"))
    waiting = (replica("worker-0", Phase.STARTING, rank=1, reason="pulling the image"),)
    steps = [
        (0.0, {"phase": Phase.STARTING, "events": noisy[:1], "replicas": waiting}),
        (10.0, {"phase": Phase.STARTING, "events": noisy, "replicas": waiting}),
        (120.0, {"phase": Phase.RUNNING, "events": noisy}),
        (130.0, {"phase": Phase.SUCCEEDED, "events": noisy}),
    ]
    done = await follow_script(Script(steps))
    assert done.told.warnings == ["event: 0/3 nodes are available"]
    assert done.told.notes == ["starting", "worker-0 (rank 1) waits: pulling the image", "running", "succeeded"]


async def test_what_a_start_waits_for_is_told_when_it_becomes_known_and_again_only_when_it_changes() -> None:
    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"phase": Phase.STARTING}),
        (60.0, {"phase": Phase.STARTING, "reason": "nobody has taken the job"}),
        (90.0, {"phase": Phase.STARTING, "reason": "nobody has taken the job"}),
        (120.0, {"phase": Phase.RUNNING}),
        (130.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps))
    assert done.told.notes == ["starting", "starting: nobody has taken the job", "running", "succeeded"]


async def test_replica_whose_node_does_not_answer_while_it_runs_is_told_once() -> None:
    silent = (replica("worker-0", Phase.RUNNING, rank=1, reason="its node gpu-1 does not answer"),)
    steps: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"phase": Phase.RUNNING}),
        (10.0, {"phase": Phase.RUNNING, "replicas": silent}),
        (20.0, {"phase": Phase.RUNNING, "replicas": silent}),
        (30.0, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps))
    assert done.told.notes == ["running", "worker-0 (rank 1): its node gpu-1 does not answer", "succeeded"]


async def test_failing_rank_is_named_in_the_log() -> None:
    failure = Failure(category=FailureClass.CODE, summary="worker-0 (rank 1) ended with exit code 3", exit_code=3)
    replicas = (replica("master-0", Phase.STOPPED), replica("worker-0", Phase.FAILED, rank=1, exit_code=3))
    done = await follow_script(
        Script(phases((0, Phase.RUNNING), (9, Phase.FAILED), replicas=replicas, failure=failure))
    )
    assert done.told.warnings == ["worker-0 (rank 1) failed with exit code 3"]
    assert done.outcome.failure == failure
    assert done.outcome.phase is Phase.FAILED


async def test_events_told_by_an_earlier_follower_are_not_told_again() -> None:
    steps = phases((0, Phase.RUNNING), (10, Phase.SUCCEEDED), events=(event(1, "old"), event(8, "new")))
    done = await follow_script(Script(steps), FollowPolicy(told_until=moment(5)))
    assert done.told.warnings == ["event: new"]


async def test_a_backend_that_does_not_answer_for_hours_ends_nothing() -> None:
    script = Script(FULL_DAY, [Line(4000, "a"), Line(70000, "b")], outages=[(5000, 60000)])
    done = await follow_script(script)
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.lines == ["master-0: a", "master-0: b"]
    assert sorted(done.told.warnings) == [
        "no answer about the run at the moment: connection refused; still following it",
        "the logs can't be read at the moment: connection refused; trying again",
    ]
    assert "the backend answers again: the run is running" in done.told.notes


async def test_a_right_that_is_missing_for_hours_ends_nothing_and_is_named_once() -> None:
    denied = AccessDenied("cannot get pytorchjobs.", hint="Add the rule.")
    script = Script(FULL_DAY, [Line(4000, "a"), Line(70000, "b")], outages=[(0, 3000), (5000, 60000)], fault=denied)
    done = await follow_script(script)
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.lines == ["master-0: a", "master-0: b"]
    words = "no answer about the run at the moment: cannot get pytorchjobs. Add the rule.; still following it"
    assert done.told.warnings.count(words) == 2  # once each time
    assert len(done.told.warnings) == 3
    assert not [call for call in done.backend.calls if call.startswith(("stop", "delete"))]


async def test_a_run_that_may_never_be_read_is_ended_by_the_tasks_own_deadline_only() -> None:
    script = Script(FULL_DAY, outages=[(0, DAY)], fault=AccessDenied("cannot get pytorchjobs."))
    done = await follow_script(script, FollowPolicy(deadline=moment(7200), queue_timeout=60, start_timeout=60))
    assert (done.outcome.kind, done.outcome.failure and done.outcome.failure.category) == ("failed", "timeout")
    assert {call for call in done.backend.calls if call.startswith(("stop", "delete"))} == {"stop by execution_timeout"}


async def test_a_watch_that_closes_by_itself_is_opened_again_silently() -> None:
    done = await follow_script(Script(phases((0, Phase.RUNNING), (600, Phase.SUCCEEDED)), watch_ends_every=5))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.notes == ["running", "succeeded"]
    assert done.told.warnings == []


async def test_an_unknown_answer_ends_nothing() -> None:
    steps = phases((0, Phase.RUNNING), (5, Phase.UNKNOWN), reason="503")
    done = await follow_script(Script([*steps, (DAY, {"phase": Phase.SUCCEEDED})]))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.warnings == ["no answer about the run at the moment: 503; still following it"]


async def test_a_run_that_vanished_is_lost() -> None:
    steps = phases((0, Phase.RUNNING), (100, Phase.LOST), submitted_at=None)
    done = await follow_script(Script(steps))
    assert done.outcome.kind is OutcomeKind.LOST
    assert done.outcome.failure is not None
    assert done.outcome.failure.category is FailureClass.LOST
    assert done.outcome.failure.summary.startswith(done.outcome.ref.name)


async def test_a_stop_by_a_person_names_who() -> None:
    backend, told = ScriptedBackend(Script(phases((0, Phase.RUNNING)))), Recorder()
    ref = await backend.submit(backend.render(make_task(), context()))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told, clock=now))
    await asyncio.sleep(50)
    await backend.stop(ref, by="mia (marked failed)")
    outcome = await following
    assert outcome.kind is OutcomeKind.STOPPED
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.STOPPED_BY_USER
    assert "mia (marked failed)" in outcome.failure.summary
    assert "stopped by mia (marked failed)" in told.notes


async def test_a_reporter_that_fails_ends_the_following_with_its_own_error() -> None:
    def fail(line: LogLine) -> None:
        raise RuntimeError("the log file is gone")

    told = Recorder()
    told.on_line = fail
    with pytest.raises(RuntimeError, match="log file is gone"):
        await follow_script(Script(phases((0, Phase.RUNNING), (1000, Phase.SUCCEEDED)), [Line(1, "a")]), recorder=told)
    assert asyncio.get_running_loop().time() < 10


async def test_a_quiet_follower_costs_no_wakeups() -> None:
    loop = asyncio.get_running_loop()
    wakeups = 0
    schedule = loop.call_at

    def counting(*args: object, **kwargs: object) -> object:
        nonlocal wakeups
        wakeups += 1
        return schedule(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

    loop.call_at = counting  # type: ignore[method-assign, assignment]  # counts timers, changes none
    await follow_script(Script(FULL_DAY))
    assert wakeups < 200


async def test_links_are_told_as_they_come_and_go_and_not_again_while_they_stay() -> None:
    dashboard = {"dashboard": "http://ray.example"}
    steps: list[tuple[float, dict[str, Any]]] = [
        (0, {"phase": Phase.STARTING}),
        (60, {"phase": Phase.RUNNING, "links": dashboard}),
        (120, {"phase": Phase.RUNNING, "links": dashboard, "reason": "still"}),
        (180, {"phase": Phase.SUCCEEDED}),
    ]
    done = await follow_script(Script(steps), FollowPolicy())
    assert done.told.shown_links == [dashboard, {}]


async def test_store_that_keeps_no_links_changes_nothing() -> None:
    class Forgetful(Recorder):
        async def links(self, links: Mapping[str, str]) -> None:
            raise ConnectionError("no answer")

    steps = phases((0, Phase.RUNNING), (60, Phase.SUCCEEDED), links={"dashboard": "http://ray.example"})
    done = await follow_script(Script(steps), FollowPolicy(), recorder=Forgetful())
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.warnings == ["where the run can be looked at can't be remembered: no answer"]
