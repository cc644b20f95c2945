"""Who waits asks for little."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import AccessDenied
from tests.platform.names import CLUSTER, REGION, USER
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK
from tests.unit.backends.platform.tasks import context, task

LISTING = ("GET", "/task-service/v1/tasks")


async def watched(backend: PlatformBackend, ref: JobRef) -> list[Status]:
    async with asyncio.timeout(20):
        return [status async for status in backend.watch(ref)]


async def test_many_waiting_tasks_share_one_listing(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=60)
    refs = [await backend.submit(backend.render(task(units=100), context())) for _ in range(20)]
    running.call(running.platform.requests.clear)
    following = [asyncio.create_task(watched(backend, ref)) for ref in refs]
    await asyncio.sleep(1.0)
    asked = running.call(lambda: list(running.platform.requests))
    for one in following:
        one.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    assert asked.count(LISTING) <= 15
    others = [path for method, path in asked if (method, path) != LISTING]
    assert all(path.endswith(f"{refs[0].uid}/pods") for path in others)  # of the one that runs


async def test_an_outage_ends_nothing(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=1.0)
    ref = await backend.submit(backend.render(task(), context()))
    following = asyncio.create_task(watched(backend, ref))
    await asyncio.sleep(0.3)
    running.change(faults=[{"status": 503, "times": 6}])
    seen = await following
    assert seen[-1].phase is Phase.SUCCEEDED
    assert Phase.UNKNOWN in [status.phase for status in seen]


async def test_a_status_that_nobody_knows_is_waited_through_with_one_warning(
    running: RunningPlatform, backend: PlatformBackend, caplog: pytest.LogCaptureFixture
) -> None:
    running.change(run_seconds=5)
    ref = await backend.submit(backend.render(task(), context()))
    with caplog.at_level(logging.WARNING):
        following = asyncio.create_task(watched(backend, ref))
        await asyncio.sleep(0.3)
        running.call(lambda: running.platform.engine.tasks[ref.uid].turn("Hibernating"))
        await asyncio.sleep(0.5)
        running.call(lambda: running.platform.engine.tasks[ref.uid].turn("Succeeded"))
        seen = await following
    assert [status.phase for status in seen][-2:] == [Phase.UNKNOWN, Phase.SUCCEEDED]
    assert caplog.text.count("Hibernating") == 1


async def test_a_task_that_no_listing_shows_yet_is_asked_for_by_itself(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=0.5, visibility_seconds=30)
    ref = await backend.submit(backend.render(task(), context()))
    assert (await watched(backend, ref))[-1].phase is Phase.SUCCEEDED


async def test_a_task_that_never_appears_is_lost_only_after_a_while(backend: PlatformBackend) -> None:
    ref = JobRef(backend="platform", kind="PyTorchJob", name="never-abcdefg", uid="nope", task_uuid="u")
    assert (await backend.status(ref)).phase is Phase.UNKNOWN
    assert (await watched(backend, ref))[-1].phase is Phase.LOST


async def test_a_row_of_another_shape_keeps_no_other_run_from_being_seen(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=1.0)
    ref = await backend.submit(backend.render(task(), context()))
    odd = '{"status": true, "msg": "", "total": 1, "rows": [{"uuid": "x", "taskEnv": 3, "name": "odd"}]}'
    running.change(faults=[{"method": "GET", "path": "/tasks$", "body": odd, "times": 2}])
    assert (await watched(backend, ref))[-1].phase is Phase.SUCCEEDED


async def test_a_refusal_is_ridden_out_for_a_while(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=1.0)
    ref = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{"status": 401, "times": 3}])
    seen = await watched(backend, ref)
    assert seen[-1].phase is Phase.SUCCEEDED


async def test_a_task_that_may_not_be_read_any_more_keeps_no_other_run_from_being_seen(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=1.5)
    hidden = JobRef(backend="platform", kind="PyTorchJob", name="hidden-abcdefg", uid="hidden", task_uuid="u")
    running.change(faults=[{"path": "/tasks/hidden$", "status": 403, "times": 999}])
    ref = await backend.submit(backend.render(task(), context()))
    refused, seen = await asyncio.gather(watched(backend, hidden), watched(backend, ref), return_exceptions=True)
    assert isinstance(refused, AccessDenied)
    asked = running.call(lambda: running.platform.requests.count(("GET", f"{LISTING[1]}/hidden")))
    assert asked > 12  # for ten minutes at the usual pace: who gives up stops the run
    assert not isinstance(seen, BaseException)
    assert [status.phase for status in seen if status.phase is Phase.UNKNOWN] == []
    assert seen[-1].phase is Phase.SUCCEEDED


async def test_one_task_among_thousands_of_newer_ones_costs_one_page_and_one_request(
    running: RunningPlatform, settings: Settings
) -> None:
    running.change(run_seconds=600)
    # a busy machine may take its time for a page: one that is asked for again would be counted twice
    async with PlatformBackend(settings, replace(QUICK, answer=20.0)) as backend:
        await _among_thousands(running, backend)


async def _among_thousands(running: RunningPlatform, backend: PlatformBackend) -> None:
    ref = await backend.submit(backend.render(task(), context()))
    body = running.call(lambda: running.platform.engine.tasks[ref.uid].body)
    others = [body.model_copy(update={"task_env": [], "name_prefix": "other"}) for _ in range(3000)]
    place = {"owner": USER, "region": REGION, "cluster": CLUSTER}
    running.call(lambda: running.platform.engine.fill(others, **place))
    running.call(running.platform.requests.clear)
    async with asyncio.timeout(20):
        async for status in backend.watch(ref):
            if status.phase is Phase.RUNNING:
                break
    asked = running.call(lambda: list(running.platform.requests))
    assert asked.count(LISTING) <= asked.count(("GET", f"{LISTING[1]}/{ref.uid}")) + 1


async def test_an_end_whose_pods_can_not_be_had_yet_is_told_later(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=0.5, faults=[{"path": "/pods$", "status": 503, "times": 12}])
    ref = await backend.submit(backend.render(task(), context()))
    assert (await watched(backend, ref))[-1].phase is Phase.SUCCEEDED


async def test_pods_that_may_not_be_seen_end_nothing(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=0.5, faults=[{"path": "/pods$", "status": 403, "times": 999}])
    ref = await backend.submit(backend.render(task(), context()))
    assert (await watched(backend, ref))[-1].phase is Phase.SUCCEEDED
