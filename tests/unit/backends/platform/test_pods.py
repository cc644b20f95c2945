"""The pods of running tasks are asked for so often a minute and no more, however many backends a connection has."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.platform.pods import Pods
from siflow_provider.backends.settings import Settings
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import JobRef, Phase
from tests.contract.life import Told
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK
from tests.unit.backends.platform.tasks import context, task


def asked(running: RunningPlatform) -> int:
    return running.call(lambda: sum(path.endswith("/pods") for _, path in running.platform.requests))


async def test_backends_of_one_connection_share_what_a_minute_may_cost(
    running: RunningPlatform, settings: Settings
) -> None:
    running.change(run_seconds=60)
    pace = replace(QUICK, pods_per_minute=4.0)
    async with AsyncExitStack() as stack:
        backends = [await stack.enter_async_context(PlatformBackend(settings, pace)) for _ in range(3)]
        refs = [await one.submit(one.render(task(), context())) for one in backends for _ in range(2)]
        seen: set[str] = set()

        async def look(one: PlatformBackend, ref: JobRef) -> None:
            async for status in one.watch(ref):
                if status.phase is Phase.RUNNING:
                    seen.add(ref.uid)

        following: list[asyncio.Task[Any]] = []
        for one, ref in zip(backends * 2, refs, strict=True):
            following.append(asyncio.create_task(look(one, ref)))
            following.append(asyncio.create_task(follow(one, ref, FollowPolicy(logs="all"), Told())))
        await asyncio.sleep(2.0)
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    assert seen == {ref.uid for ref in refs}  # what runs is known without its pods
    assert asked(running) == 4


async def test_two_backends_that_watch_one_run_ask_once(running: RunningPlatform, settings: Settings) -> None:
    running.change(run_seconds=60)
    pace = replace(QUICK, pods=60.0)
    async with PlatformBackend(settings, pace) as one, PlatformBackend(settings, pace) as other:
        ref = await one.submit(one.render(task(), context()))

        async def replicas(backend: PlatformBackend) -> list[str]:
            async for status in backend.watch(ref):
                if status.phase is Phase.RUNNING and status.replicas:
                    return [replica.name for replica in status.replicas]
            return []

        async with asyncio.timeout(20):
            mine, theirs = await asyncio.gather(replicas(one), replicas(other))
    assert mine == theirs == ["master-0"]
    assert asked(running) <= 2  # one for each status that was seen


async def test_a_run_is_followed_to_its_end_where_the_minute_has_no_room_for_pods(
    running: RunningPlatform, settings: Settings
) -> None:
    running.change(run_seconds=1.0)
    async with PlatformBackend(settings, replace(QUICK, pods_per_minute=0.0)) as backend:
        ref = await backend.submit(backend.render(task(), context()))
        async with asyncio.timeout(30):
            outcome = await follow(backend, ref, FollowPolicy(), Told())
    assert outcome.kind is OutcomeKind.SUCCEEDED


async def test_those_that_run_take_turns_and_leave_room_for_news(running: RunningPlatform, settings: Settings) -> None:
    running.change(run_seconds=60)
    async with PlatformBackend(settings, replace(QUICK, pods=0.0, pods_per_minute=8.0)) as backend:
        refs = [await backend.submit(backend.render(task(), context())) for _ in range(3)]
        pods = Pods(backend.place.tasks, backend.place.pace)

        async def look(status: str) -> list[str]:
            seen = [await pods.lately(ref.uid, status) for ref in refs]
            return [one.status for one in seen if one is not None]

        for _ in range(3):
            await look("Running")
        assert asked(running) == 3  # three tasks have four requests a minute: a turn lasts 45 s
        await look("Stopping")
        assert asked(running) == 6
        assert await look("Other") == ["Other", "Other", "Stopping"]
        assert asked(running) == 8
