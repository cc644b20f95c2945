"""From launch to outcome, with real runs: what a user of an operator or of the CLI gets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from siflow_provider.core.attempts import first_attempt, next_attempt
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.run import RunEnd, run
from siflow_provider.core.status import FailureClass, JobRef, Phase
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.life import (
    Told,
    context,
    end,
    expect_nothing_running,
    first_lines,
    mine,
    read,
    start,
    texts,
    until_phase,
)
from tests.contract.world import World

TWICE = 'echo "attempt $SIFLOW_ATTEMPT"; [ "$SIFLOW_ATTEMPT" = 2 ] || kill -SEGV $$'


async def run_to_end(backend: TrainingBackend, task: ResolvedTask, told: Told) -> tuple[RunEnd, list[JobRef]]:
    refs: list[JobRef] = []
    async with asyncio.timeout(120):
        ended = await run(
            backend, task, context(), follow_policy(task, logs="all"), told, quota="require", on_ref=refs.append
        )
    return ended, refs


async def test_a_run_succeeds_with_its_logs_and_its_result(world: World, backend: TrainingBackend) -> None:
    told = Told()
    task = world.task('echo "hello from $RANK"; echo "{\\"acc\\": 0.9, \\"rank\\": $RANK}" > "$SIFLOW_RESULTS"')
    ended, refs = await run_to_end(backend, task, told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results == {"acc": 0.9, "rank": 0}
    assert texts(told.lines, "master-0")[0] == "hello from 0"
    assert told.cursor == ended.outcome.cursor
    assert told.warnings == backend.warnings(task)  # nothing frightens where nothing is wrong
    summary = ended.summary()
    assert (summary["name"], summary["phase"], summary["attempts"]) == (refs[0].name, "succeeded", 1)
    assert summary["running_seconds"] > 0


@pytest.mark.parametrize(
    ("write", "result"),
    [
        ("echo '::siflow-result:: [1, 2]'", [1, 2]),
        ("printf '{\\n  \"a\":\\n 1}\\n' > $SIFLOW_RESULTS", {"a": 1}),
        ("printf 'no line end before'; echo 7 > $SIFLOW_RESULTS", 7),
        ("{ printf '\"'; printf 'é%0.s' $(seq 30000); printf '\"'; } > $SIFLOW_RESULTS", "é" * 30000),
        ("true", None),
    ],
    ids=["line", "file", "torn line", "long", "none"],
)
async def test_results_come_whatever_way_they_are_written(
    world: World, backend: TrainingBackend, write: str, result: object
) -> None:
    ended, _ = await run_to_end(backend, world.task(write), Told())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results == result


@pytest.mark.parametrize(
    ("write", "word"),
    [
        ("echo 'not json' > $SIFLOW_RESULTS", "not JSON"),
        ("head -c 2000000 /dev/zero | tr '\\0' 1 > $SIFLOW_RESULTS", "256 KiB"),
        ("printf '\\xff\\xfe' > $SIFLOW_RESULTS", "not JSON"),
        ("mkdir $SIFLOW_RESULTS", "results file"),
    ],
    ids=["no JSON", "too long", "no text", "no file"],
)
async def test_a_bad_result_is_told_and_fails_nothing(
    world: World, backend: TrainingBackend, write: str, word: str
) -> None:
    told = Told()
    ended, _ = await run_to_end(backend, world.task(write), told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results is None
    assert [warning for warning in told.warnings if word in warning], told.warnings


async def test_a_failing_run_still_reports_its_result(world: World, backend: TrainingBackend) -> None:
    ended, _ = await run_to_end(backend, world.task("echo 5 > $SIFLOW_RESULTS; exit 1"), Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert ended.outcome.results == 5


async def test_a_retry_is_a_second_attempt_with_logs_of_its_own(world: World, backend: TrainingBackend) -> None:
    told = Told()
    ended, refs = await run_to_end(backend, world.task(TWICE, fault_tolerance={"max_retries": 3}), told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert [ref.attempt for ref in refs] == [1, 2]
    assert refs[0].task_uuid == refs[1].task_uuid
    assert [note for note in told.notes if note.startswith("attempt 2 of 4")]
    assert texts(told.lines, "master-0") == ["attempt 1", "attempt 2"]
    for ref in refs:
        assert texts(await read(backend, ref), "master-0") == [f"attempt {ref.attempt}"]
    first = await backend.status(refs[0])
    assert first.failure is not None  # each attempt's reason stays visible
    assert ended.totals.running_seconds > 0
    assert ended.summary()["attempts"] == 2


async def test_wrong_code_is_not_retried(world: World, backend: TrainingBackend) -> None:
    task = world.task("echo once; exit 1", fault_tolerance={"max_retries": 3})
    ended, refs = await run_to_end(backend, task, told := Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert len(refs) == 1
    assert texts(told.lines, "master-0") == ["once"]


async def test_retries_end(world: World, backend: TrainingBackend) -> None:
    task = world.task("exit 1", fault_tolerance={"max_retries": 1, "retry_on": ["code"]})
    ended, refs = await run_to_end(backend, task, Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert [ref.attempt for ref in refs] == [1, 2]


async def test_a_crash_between_two_attempts_goes_on_with_the_newest(world: World, backend: TrainingBackend) -> None:
    identity, told = mine(), Told()
    task = world.task(TWICE, fault_tolerance={"max_retries": 1})
    policy = follow_policy(task)
    step = await first_attempt(backend, task, context(identity), policy, told, quota="require")
    outcome = await follow(backend, step.ref, step.policy, told)
    assert outcome.kind is OutcomeKind.RETRY
    second = await next_attempt(backend, task, context(identity), policy, told, outcome=outcome, ledger=step.ledger)
    # here the process dies; another one starts the same try from its beginning
    async with world.backend() as later:
        again = await first_attempt(later, task, context(identity), policy, told, quota="require")
        assert again.adopted
        assert again.ref == second.ref
        assert again.ledger.totals.running_seconds == pytest.approx(second.ledger.totals.running_seconds, abs=0.05)
        assert (await follow(later, again.ref, again.policy, told)).kind is OutcomeKind.SUCCEEDED
    assert len(await backend.runs()) == 2


async def test_a_crash_before_the_second_attempt_makes_it_now(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    task = world.task(TWICE, fault_tolerance={"max_retries": 1})
    ref = await start(backend, task, identity)
    await end(backend, ref)
    async with world.backend() as later:
        ended = await run(later, task, context(identity), follow_policy(task), Told(), quota="require")
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.ref.attempt == 2
    assert len(await backend.runs()) == 2


async def test_followers_that_start_anew_show_each_line_of_each_replica_once(
    world: World, backend: TrainingBackend
) -> None:
    told, policy = Told(), FollowPolicy(logs="all")
    command = 'for n in $(seq 300); do echo "$RANK:$n"; sleep 0.01; done'
    ref = await start(backend, world.task(command, workers=2))
    for _ in range(4):
        following = asyncio.create_task(follow(backend, ref, policy, told, cursor=told.cursor))
        await asyncio.wait({following}, timeout=0.8)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    async with world.backend() as later:
        outcome = await follow(later, ref, policy, told, cursor=told.cursor)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert texts(told.lines, replica) == [f"{rank}:{number}" for number in range(1, 301)]


async def test_a_start_that_never_comes_ends_with_its_own_reason(world: World, backend: TrainingBackend) -> None:
    ref = await world.stuck_start(backend)
    outcome = await follow(backend, ref, FollowPolicy(start_timeout=1.0), Told())
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.TIMEOUT
    assert "start_timeout of 1s" in outcome.failure.summary
    assert ref not in [status.ref for status in await backend.runs()]
    await expect_nothing_running(world, ref)


async def test_a_queue_that_does_not_move_ends_with_its_own_reason(world: World, backend: TrainingBackend) -> None:
    holder = await start(backend, world.task("sleep 600", size="whole"))
    await until_phase(backend, holder, Phase.RUNNING)
    ref = await start(backend, world.task("echo never", size="whole"))
    outcome = await follow(backend, ref, FollowPolicy(queue_timeout=1.0), told := Told())
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.TIMEOUT
    assert "queue_timeout of 1s" in outcome.failure.summary
    assert outcome.totals.queued_seconds >= 1.0
    assert outcome.totals.running_seconds == 0
    assert told.lines == []
    assert [status.ref for status in await backend.runs()] == [holder]


async def test_a_deadline_ends_a_silent_run(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("sleep 600", workers=1))
    deadline = datetime.now(UTC) + timedelta(seconds=2)
    outcome = await follow(backend, ref, FollowPolicy(deadline=deadline), Told())
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.TIMEOUT
    assert "execution_timeout" in outcome.failure.summary
    await expect_nothing_running(world, ref)


async def test_a_hang_is_found_and_ended(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo 'step 1'; sleep 600", workers=1))
    await first_lines(world, backend, ref)
    outcome = await follow(backend, ref, FollowPolicy(hang_timeout=1.5), told := Told())
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.HANG
    assert outcome.failure.last_lines == ("step 1",)
    assert [note for note in told.warnings + told.notes if "stack" in note]
    await expect_nothing_running(world, ref)


async def test_a_run_that_vanished_ends_as_lost(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600"))
    await first_lines(world, backend, ref)
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(max_retries=3), told := Told()))
    await told.seen.wait()
    await world.vanish(ref)
    async with asyncio.timeout(world.patience_seconds):
        outcome = await following
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.LOST


async def test_a_cancelled_follower_leaves_the_run_alone(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600"))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    await told.seen.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert (await backend.status(ref)).phase is Phase.RUNNING
