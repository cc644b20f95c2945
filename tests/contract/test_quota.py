from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from siflow_provider.core.launch import launch
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.quota import QuotaReport, Verdict
from siflow_provider.core.status import Phase, Status
from siflow_provider.errors import NeverAdmissibleError
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.life import Told, context, start, until, until_phase
from tests.contract.world import World


async def _full(world: World, backend: TrainingBackend, task: ResolvedTask) -> QuotaReport:
    """Return the first report without room: a queue may publish what it holds a moment after a run began."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + world.patience_seconds
    while (report := await backend.quota(task)).fits_now:
        assert loop.time() < deadline, "the place stays free"
        await asyncio.sleep(0.2)
    return report


async def test_an_empty_place_has_room(world: World, backend: TrainingBackend) -> None:
    report = await backend.quota(world.task("true", size="whole"))
    assert report.fits_now
    assert report.why_not() == ""
    assert report.ever.verdict is Verdict.YES
    assert not report.never


async def test_a_taken_place_says_which_number_is_short(world: World, backend: TrainingBackend) -> None:
    holder = await start(backend, world.task("sleep 600", size="whole"))
    await until_phase(backend, holder, Phase.RUNNING)
    report = await _full(world, backend, world.task("true", size="whole"))
    assert not report.never
    assert report.available.short
    short = report.available.short[0]
    assert short.need > short.have
    assert short.resource in report.why_not()
    await backend.stop(holder, by="the test")
    assert (await backend.quota(world.task("true", size="whole"))).fits_now


async def test_all_four_answers_have_a_text(world: World, backend: TrainingBackend) -> None:
    report = await backend.quota(world.task("true"))
    for answer in (report.remaining, report.available, report.idle, report.ever):
        assert answer.verdict in Verdict
        assert answer.text


async def test_the_whole_task_is_asked_for_and_not_one_replica(world: World, backend: TrainingBackend) -> None:
    assert (await backend.quota(world.task("true", size="whole"))).fits_now
    assert (await backend.quota(world.task("true", size="whole", workers=1))).never


async def test_a_task_that_can_never_fit_is_told_before_it_is_submitted(world: World, backend: TrainingBackend) -> None:
    task, told = world.task("true", size="impossible"), Told()
    report = await backend.quota(task)
    assert report.never
    assert report.ever.short
    with pytest.raises(NeverAdmissibleError) as caught:
        await launch(backend, task, context(), quota="require", reporter=told)
    assert report.ever.short[0].resource in str(caught.value)
    assert await backend.runs() == []


async def test_a_task_that_can_never_fit_is_submitted_when_that_is_wished(
    world: World, backend: TrainingBackend
) -> None:
    told = Told()
    launched = await launch(backend, world.task("true", size="impossible"), context(), quota="warn", reporter=told)
    assert [warning for warning in told.warnings if "can never be admitted" in warning]
    status = await until_phase(backend, launched.ref, Phase.QUEUED)
    assert status.queue is not None


def at_place(place: int) -> Callable[[Status], bool]:
    return lambda status: status.queue is not None and status.queue.position == place


async def test_the_queue_tells_position_and_reason_and_moves_up(world: World, backend: TrainingBackend) -> None:
    whole = world.task("sleep 600", size="whole")
    refs = [await start(backend, whole)]
    await until_phase(backend, refs[0], Phase.RUNNING)
    for place in (1, 2):
        await asyncio.sleep(1)  # who came first is told by whole seconds on a cluster
        refs.append(await start(backend, whole))
        status = await until(backend, refs[-1], at_place(place))
        assert status.phase is Phase.QUEUED
        assert status.queue is not None
        assert status.queue.reason
    await backend.stop(refs[0], by="the test")
    await until_phase(backend, refs[1], Phase.RUNNING)
    await until(backend, refs[2], at_place(1))
    waited = await backend.status(refs[1])
    assert waited.queued_seconds > 0
    assert waited.admitted_at is not None


async def test_a_higher_priority_goes_first(world: World, backend: TrainingBackend) -> None:
    holder = await start(backend, world.task("sleep 600", size="whole"))
    await until_phase(backend, holder, Phase.RUNNING)
    low = await start(backend, world.task("sleep 600", size="whole", priority="low"))
    high = await start(backend, world.task("sleep 600", size="whole", priority="high"))
    await backend.stop(holder, by="the test")
    await until_phase(backend, high, Phase.RUNNING)
    assert (await backend.status(low)).phase is Phase.QUEUED
