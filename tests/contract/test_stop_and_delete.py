from __future__ import annotations

import asyncio

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.identity import Identity
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.status import FailureClass, JobRef, Phase
from tests.contract.life import Told, end, expect_nothing_running, mine, start, until_phase
from tests.contract.world import World

PHASES = ["queued", "running", "succeeded", "failed", "stopped"]


async def bring_to(phase: str, world: World, backend: TrainingBackend, identity: Identity | None = None) -> JobRef:
    """Return a run that is in that phase."""
    if phase == "queued":
        first = await start(backend, world.task("sleep 600", size="whole"))
        await until_phase(backend, first, Phase.RUNNING)
        ref = await start(backend, world.task("sleep 600", size="whole"), identity)
        await until_phase(backend, ref, Phase.QUEUED)
        return ref
    commands = {"succeeded": "true", "failed": "exit 3"}
    ref = await start(backend, world.task(commands.get(phase, "sleep 600"), workers=1), identity)
    await until_phase(backend, ref, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)
    if phase == "stopped":
        await backend.stop(ref, by="somebody earlier")
    if phase != "running":
        await end(backend, ref)
    return ref


@pytest.mark.parametrize("phase", PHASES)
async def test_stop_may_be_called_twice_in_every_phase(world: World, backend: TrainingBackend, phase: str) -> None:
    ref = await bring_to(phase, world, backend)
    before = await backend.status(ref)
    await backend.stop(ref, by="mia")
    await backend.stop(ref, by="noa")
    status = await end(backend, ref)
    if before.phase.terminal:
        assert status == before
    else:
        assert (status.phase, status.stopped_by) == (Phase.STOPPED, "mia")
    await expect_nothing_running(world, ref)


@pytest.mark.parametrize("phase", PHASES)
async def test_delete_may_be_called_twice_in_every_phase(world: World, backend: TrainingBackend, phase: str) -> None:
    identity = mine()
    ref = await bring_to(phase, world, backend, identity)
    await backend.delete(ref)
    await backend.delete(ref)
    assert ref not in [status.ref for status in await backend.runs()]
    assert await backend.find(identity) is None
    assert (await backend.status(ref)).phase.terminal
    await expect_nothing_running(world, ref)


async def test_a_run_that_is_gone_may_be_stopped_and_deleted(world: World, backend: TrainingBackend) -> None:
    ref = await bring_to("running", world, backend)
    await world.vanish(ref)
    await backend.stop(ref, by="mia")
    await backend.delete(ref)
    assert (await backend.status(ref)).phase is Phase.LOST


async def test_a_deleted_run_may_be_submitted_again_and_is_another_one(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    first = await start(backend, world.task("true"), identity)
    await end(backend, first)
    await backend.delete(first)
    second = await start(backend, world.task("sleep 600"), identity)
    assert (second.name, second.task_uuid) == (first.name, first.task_uuid)
    assert second.uid != first.uid
    await backend.stop(first, by="a late caller")
    await backend.delete(first)
    await until_phase(backend, second, Phase.RUNNING)
    assert not (await backend.status(second)).phase.terminal


async def test_stops_at_once_from_several_processes_are_one_stop(world: World, backend: TrainingBackend) -> None:
    ref = await bring_to("running", world, backend)
    async with world.backend() as other:
        callers = [(backend, "mia"), (other, "noa"), (backend, "ida")]
        await asyncio.gather(*(caller.stop(ref, by=who) for caller, who in callers))
    assert (await backend.status(ref)).stopped_by in {"mia", "noa", "ida"}


async def test_a_replica_that_ignores_the_stop_is_ended_all_the_same(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("trap '' TERM INT HUP; while :; do sleep 1; done"))
    await until_phase(backend, ref, Phase.RUNNING)
    await backend.stop(ref, by="mia")
    assert (await end(backend, ref)).phase is Phase.STOPPED
    await expect_nothing_running(world, ref)


async def test_a_stop_that_waits_for_nothing_ends_the_run_all_the_same(world: World, backend: TrainingBackend) -> None:
    ref = await bring_to("running", world, backend)
    await backend.stop(ref, by="mia", wait=False)
    status = await end(backend, ref)
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "mia")
    await expect_nothing_running(world, ref)


async def test_stop_by_a_user_names_who(world: World, backend: TrainingBackend) -> None:
    ref = await bring_to("running", world, backend)
    told = Told()
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(max_retries=3), told))
    await backend.stop(ref, by="mia (marked failed)")
    outcome = await following
    assert outcome.kind is OutcomeKind.STOPPED
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.STOPPED_BY_USER
    assert "mia (marked failed)" in outcome.failure.summary
