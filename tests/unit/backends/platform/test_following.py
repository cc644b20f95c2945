"""What following a run asks of the platform, logs included."""

from __future__ import annotations

import asyncio

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from tests.contract.life import Told
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.tasks import context, task

LISTING = ("GET", "/task-service/v1/tasks")


async def test_following_queued_runs_asks_for_nothing_but_the_listing(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=60)
    await backend.submit(backend.render(task(units=100), context()))
    refs = [await backend.submit(backend.render(task(units=100), context())) for _ in range(10)]
    running.call(running.platform.requests.clear)
    following = [asyncio.create_task(follow(backend, ref, FollowPolicy(logs="all"), Told())) for ref in refs]
    await asyncio.sleep(1.0)
    asked = running.call(lambda: list(running.platform.requests))
    for one in following:
        one.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    assert set(asked) == {LISTING}
    assert len(asked) <= 15


async def test_a_log_service_that_refuses_fails_no_run(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=1.0, faults=[{"path": "/logs$", "status": 401, "times": 3}])
    ref = await backend.submit(backend.render(task(), context()))
    async with asyncio.timeout(60):
        outcome = await follow(backend, ref, FollowPolicy(), told := Told())
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert [warning for warning in told.warnings if "logs can't be read at the moment" in warning]
