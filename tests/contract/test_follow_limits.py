"""What ends a follower of a real run, and what ends the run that it follows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.status import FailureClass, Phase
from tests.contract.life import (
    Told,
    expect_nothing_running,
    first_lines,
    start,
    texts,
    until_phase,
)
from tests.contract.world import World


async def test_followers_that_start_anew_show_each_line_of_each_replica_once(
    world: World, backend: TrainingBackend
) -> None:
    told, policy = Told(), FollowPolicy(logs="all")
    command = 'for n in $(seq 200); do echo "$RANK:$n"; sleep 0.01; done'
    ref = await start(backend, world.task(command, workers=2))
    for _ in range(4):
        following = asyncio.create_task(follow(backend, ref, policy, told, cursor=told.cursor))
        await asyncio.wait({following}, timeout=0.4)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    async with world.backend() as later:
        outcome = await follow(later, ref, policy, told, cursor=told.cursor)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert texts(told.lines, replica) == [f"{rank}:{number}" for number in range(1, 201)]


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
    await until_phase(backend, ref, Phase.RUNNING)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert (await backend.status(ref)).phase is Phase.RUNNING
