"""Exactly one task, whatever happens to the answers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendError, BackendUnavailable
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK
from tests.unit.backends.platform.tasks import context, creations, make_twin, statuses, task

LOST = {"method": "POST", "path": "/tasks$", "after": True}


@pytest.mark.parametrize("fault", [{"status": 504}, {"hang_seconds": 2.0}], ids=["gateway timeout", "silence"])
async def test_a_creation_whose_answer_is_lost_is_found_and_not_repeated(
    running: RunningPlatform, backend: PlatformBackend, fault: dict[str, object]
) -> None:
    running.change(faults=[{**LOST, **fault}])
    manifest = backend.render(task(), context())
    ref = await backend.submit(manifest)
    assert (creations(running), len(statuses(running))) == (1, 1)
    assert await backend.submit(manifest) == ref
    assert creations(running) == 1


async def test_a_listing_that_lags_behind_costs_time_and_no_second_task(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(faults=[{**LOST, "status": 504}], visibility_seconds=1.0)
    await backend.submit(backend.render(task(), context()))
    assert (creations(running), len(statuses(running))) == (1, 1)


async def test_a_creation_that_did_not_take_place_may_be_tried_again(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(faults=[{"method": "POST", "path": "/tasks$", "status": 503}])
    manifest = backend.render(task(), context())
    with pytest.raises(BackendUnavailable, match="was not created"):
        await backend.submit(manifest)
    ref = await backend.submit(manifest)
    assert ref.name == manifest.name
    assert len(statuses(running)) == 1


@pytest.mark.parametrize("times", [1, 9999], ids=["for a moment", "for good"])
async def test_a_refusal_behind_a_lost_answer_leaves_no_task_behind_that_nobody_knows_of(
    running: RunningPlatform, backend: PlatformBackend, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    tasks = backend.place.tasks
    create = tasks.create

    async def create_and_be_refused(*body: Any, **more: Any) -> str:
        try:
            return await create(*body, **more)
        finally:
            running.change(faults=[{"method": "GET", "status": 401, "times": times}])

    monkeypatch.setattr(tasks, "create", create_and_be_refused)
    running.change(faults=[{**LOST, "status": 504}], run_seconds=60)
    manifest = backend.render(task(), context())
    if times > 1:
        with pytest.raises(BackendError, match=f"A task '{manifest.name}' may exist there") as caught:
            await backend.submit(manifest)
        assert "does not accept the access key" in str(caught.value)
        assert not isinstance(caught.value, BackendUnavailable)  # to wait on would not cure it
        running.change(faults=[])
    ref = await backend.submit(manifest)
    assert (ref.name, creations(running), statuses(running)) == (manifest.name, 1, ["Running"])


async def test_of_two_tasks_of_one_attempt_the_oldest_is_kept_and_the_log_says_so(
    running: RunningPlatform, backend: PlatformBackend, caplog: pytest.LogCaptureFixture
) -> None:
    running.change(run_seconds=60)
    identity = Identity.random()
    manifest = backend.render(task(), context(identity))
    first = await backend.submit(manifest)
    running.call(lambda: make_twin(running))  # another process, whose listing did not show the first one yet
    with caplog.at_level(logging.WARNING):
        found = await backend.find(identity)
    assert found == first
    assert f"{first.name} ({first.uid}) is kept" in caplog.text
    assert [status.ref for status in await backend.runs()] == [first]
    await asyncio.sleep(0.2)
    assert statuses(running) == ["Running", "Stopped"]


async def test_who_follows_the_second_of_two_tasks_goes_on_with_the_first(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=1.5)
    first = await backend.submit(backend.render(task(), context()))
    second = first.model_copy(update={"uid": running.call(lambda: make_twin(running))})
    async with asyncio.timeout(20):
        phases = [status.phase async for status in backend.watch(second)]
    assert phases[-1] is Phase.SUCCEEDED
    assert statuses(running) == ["Succeeded", "Stopped"]
    assert (await backend.status(second)).phase is Phase.SUCCEEDED


async def test_several_runs_are_looked_for_in_one_listing_where_the_filter_finds_none_of_them(
    running: RunningPlatform, settings: Settings, backend: PlatformBackend
) -> None:
    running.change(name_filter="prefix", run_seconds=60)
    identity = Identity.random()
    first = await backend.submit(backend.render(task(), context(identity)))
    second = await backend.submit(backend.render(task(), context(identity.for_attempt(2))))
    other = await backend.submit(backend.render(task(), context(identity.of_generation(1))))
    runs = [identity.of_generation(number) for number in (1, 2, 0)]
    async with PlatformBackend(settings, QUICK) as later:
        await later.find(identity)  # tries the filter
        running.call(running.platform.requests.clear)
        found = await later.find_each(runs)
    assert [one and one.ref for one in found] == [other, None, second]
    assert first.task_uuid == second.task_uuid
    assert running.call(lambda: len(running.platform.requests)) == 1


async def test_a_filter_that_only_takes_beginnings_is_noticed(
    running: RunningPlatform, settings: Settings, backend: PlatformBackend
) -> None:
    running.change(name_filter="prefix", run_seconds=60)
    identity = Identity.random()
    ref = await backend.submit(backend.render(task(name_prefix="some-name"), context(identity)))
    async with PlatformBackend(settings, replace(QUICK, first_pause=0.03)) as later:
        assert await later.find(identity) == ref
        assert await later.submit(later.render(task(name_prefix="other-name"), context(identity))) == ref
    assert creations(running) == 1
