"""Waiting for runs of a real cluster: what it costs, and what an outage does to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from siflow_provider.core.status import JobRef, Phase, Status
from tests.contract.life import until_phase
from tests.control_plane.admin import Admin
from tests.control_plane.faults import bad_way
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.kubernetes_tasks import manifest, opened, task

_MANY = 20


async def test_an_outage_is_told_as_unknown_and_ends_nothing(
    admin: Admin, control_plane: ControlPlane, queues: Queues, namespace: str, tmp_path: Path
) -> None:
    async with bad_way(control_plane.kubeconfig, tmp_path) as way, opened(way.kubeconfig, namespace) as backend:
        ref = await backend.submit(manifest(backend, task(queues.queue("kwok"))))
        seen = Seen()
        watching = asyncio.create_task(seen.collect(backend.watch(ref)))
        await seen.until(Phase.RUNNING)
        way.refuse()
        await seen.until(Phase.UNKNOWN)
        pod = admin.path("Pod", f"{ref.name}-master-0", namespace)
        await asyncio.to_thread(admin.annotate, pod, exit_code="0", duration="0")  # it ends while nobody can see it
        way.heal()
        async with asyncio.timeout(90):
            await watching
    assert seen.phases[-1] is Phase.SUCCEEDED
    assert Phase.LOST not in seen.phases


class Seen:
    """The phases that a watch has told so far."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._news = asyncio.Event()

    async def collect(self, statuses: AsyncIterator[Status]) -> None:
        async for status in statuses:
            self.phases.append(status.phase)
            self._news.set()

    async def until(self, phase: Phase) -> None:
        async with asyncio.timeout(90):
            while phase not in self.phases:
                self._news.clear()
                await self._news.wait()


async def test_many_waiting_tasks_share_their_connections(
    control_plane: ControlPlane, queues: Queues, namespace: str, tmp_path: Path
) -> None:
    queue = queues.queue("kwok", GPU=1)
    async with bad_way(control_plane.kubeconfig, tmp_path) as way, opened(way.kubeconfig, namespace) as backend:
        refs: list[JobRef] = [await backend.submit(manifest(backend, task(queue))) for _ in range(_MANY)]
        await until_phase(backend, refs[0], Phase.RUNNING)
        waiting = [asyncio.create_task(until_phase(backend, ref, Phase.STOPPED)) for ref in refs]
        await asyncio.wait(waiting, timeout=5)
        assert way.connections < _MANY
        await asyncio.gather(*(backend.stop(ref, by="mia") for ref in refs))
        assert {status.stopped_by for status in await asyncio.gather(*waiting)} == {"mia"}
