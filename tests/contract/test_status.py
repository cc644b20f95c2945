from __future__ import annotations

import asyncio

from siflow_provider.core.environment import INJECTED_NAMES
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.status import FailureClass, Phase, Status
from tests.contract.life import end, expect_nothing_running, start, until_phase
from tests.contract.world import World

ORDER = [Phase.QUEUED, Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED]


async def snapshots(backend: TrainingBackend, world: World, task_command: str, workers: int) -> list[Status]:
    ref = await start(backend, world.task(task_command, workers=workers))
    async with asyncio.timeout(world.patience_seconds):
        return [status async for status in backend.watch(ref)]


async def test_snapshots_go_forward_and_the_terminal_one_is_the_last(world: World, backend: TrainingBackend) -> None:
    seen = await snapshots(backend, world, "sleep 0.5", 1)
    phases = [status.phase for status in seen if status.phase is not Phase.UNKNOWN]
    assert [ORDER.index(phase) for phase in phases] == sorted(ORDER.index(phase) for phase in phases)
    assert phases[-1] is Phase.SUCCEEDED
    assert [phase for phase in phases if phase.terminal] == [Phase.SUCCEEDED]


async def test_each_snapshot_is_whole(world: World, backend: TrainingBackend) -> None:
    seen = await snapshots(backend, world, "sleep 0.5", 1)
    last = seen[-1]
    assert last == await backend.status(last.ref)
    assert {(each.name, each.role, each.rank) for each in last.replicas} == {
        ("master-0", "master", 0),
        ("worker-0", "worker", 1),
    }
    assert [each.exit_code for each in last.replicas] == [0, 0]
    moments = [last.submitted_at, last.admitted_at, last.running_at, last.ended_at]
    known = [moment for moment in moments if moment is not None]
    assert len(known) == 4
    assert known == sorted(known)
    assert all(moment.utcoffset() is not None for moment in known)
    assert last.running_seconds(known[-1]) >= 0.4
    assert last.queued_seconds >= 0
    for earlier in seen:  # what was reached stays reached
        assert earlier.submitted_at == last.submitted_at
        assert earlier.admitted_at in {None, last.admitted_at}


async def test_watching_an_ended_run_gives_its_end_at_once(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("exit 4"))
    ended = await end(backend, ref)
    async with asyncio.timeout(world.patience_seconds):
        again = [status async for status in backend.watch(ref)]
    assert again == [ended]


async def test_failing_rank_is_named_with_exit_code_and_last_lines(world: World, backend: TrainingBackend) -> None:
    command = 'if [ "$RANK" = 2 ]; then for n in $(seq 40); do echo "step $n"; done; exit 3; fi; sleep 600'
    ref = await start(backend, world.task(command, workers=2))
    status = await end(backend, ref)
    assert status.phase is Phase.FAILED
    failure = status.failure
    assert failure is not None
    assert (failure.category, failure.replica, failure.rank, failure.exit_code) == (
        FailureClass.CODE,
        "worker-1",
        2,
        3,
    )
    assert failure.last_lines == tuple(f"step {number}" for number in range(21, 41))
    assert not failure.transient
    assert "worker-1" in failure.describe()


async def test_a_worker_that_fails_after_the_master_has_ended_well_fails_the_run(
    world: World, backend: TrainingBackend
) -> None:
    command = '[ "$RANK" = 0 ] && exit 0; sleep 1; echo late; exit 1'
    ref = await start(backend, world.task(command, workers=1))
    status = await end(backend, ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert (status.failure.replica, status.failure.exit_code) == ("worker-0", 1)
    assert status.failure.last_lines == ("late",)
    assert {each.name: each.phase for each in status.replicas}["worker-0"] is Phase.FAILED


async def test_one_failing_replica_ends_the_whole_gang(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task('[ "$RANK" = 1 ] && exit 9; sleep 600', workers=3))
    status = await end(backend, ref)
    assert {each.name: each.phase for each in status.replicas}["worker-0"] is Phase.FAILED
    assert all(each.phase.terminal for each in status.replicas)
    await expect_nothing_running(world, ref)


async def test_a_crash_by_signal_may_be_retried_and_wrong_code_may_not(world: World, backend: TrainingBackend) -> None:
    crash = await end(backend, await start(backend, world.task("kill -SEGV $$")))
    wrong = await end(backend, await start(backend, world.task("no-such-program")))
    assert crash.failure is not None
    assert (crash.failure.exit_code, crash.failure.transient) == (139, True)
    assert wrong.failure is not None
    assert (wrong.failure.exit_code, wrong.failure.transient) == (127, False)
    assert wrong.failure.category is FailureClass.CODE


async def test_a_run_that_vanished_is_lost(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("sleep 600", workers=1))
    await until_phase(backend, ref, Phase.RUNNING)
    watching = asyncio.create_task(end(backend, ref))
    await world.vanish(ref)
    status = await watching
    assert status.phase is Phase.LOST
    assert status.failure is not None
    assert status.failure.category is FailureClass.LOST
    assert (await backend.status(ref)).phase is Phase.LOST
    await expect_nothing_running(world, ref)


async def test_replicas_see_whose_run_they_are(world: World, backend: TrainingBackend) -> None:
    names = (*INJECTED_NAMES, "TZ", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    test = f'for name in {" ".join(names)}; do [ -n "${{!name+set}}" ] || {{ echo "$name is not set"; exit 1; }}; done'
    ref = await start(backend, world.task(test, workers=1, timezone="Asia/Shanghai"))
    status = await end(backend, ref)
    assert status.phase is Phase.SUCCEEDED, status.failure


async def test_every_run_is_listed_newest_first(world: World, backend: TrainingBackend) -> None:
    refs = [await start(backend, world.task("true")) for _ in range(3)]
    assert [status.ref for status in await backend.runs()] == refs[::-1]
