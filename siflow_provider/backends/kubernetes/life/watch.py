"""Snapshots of a run as they change, for all who wait for it in this process: one of them looks for the others.

A task in the triggerer waits twice: to tell of the run, and to read its logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from siflow_provider.backends.kubernetes.life.look import forget_made
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.life.observer import Observer
from siflow_provider.core.status import JobRef, Status

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster

__all__ = ["watch"]


async def watch(cluster: Cluster, ref: JobRef) -> AsyncIterator[Status]:
    """Yield snapshots as they change, the terminal one last; `unknown` while the server is silent or refuses."""
    forget_made(cluster, ref)
    before: Status | None = None
    seen = 0
    async with _shared(cluster, ref) as run:
        while True:
            seen, now = await run.newer_than(seen)
            if before is None or replace(now, queued_seconds=before.queued_seconds) != before:
                before = now
                yield now
            if now.phase.terminal:
                return


class _Shared:
    """One run and those who wait for it."""

    def __init__(self, cluster: Cluster, ref: JobRef) -> None:
        self.users = 0
        self._uid = ref.uid
        self._observer = Observer(cluster, ref)
        self._looking = asyncio.Lock()
        self._due = True
        self._number = 0
        self._newest: Status | None = None

    async def newer_than(self, number: int) -> tuple[int, Status]:
        """Return the newest snapshot and its number, once that is higher than `number`."""
        while True:
            if self._newest is not None and self._number > number:
                return self._number, self._newest
            async with self._looking:
                if self._number <= number:
                    await self._look()

    async def _look(self) -> None:
        """Take the next snapshot. Whoever does may be cancelled, and the next one who waits goes on from there."""
        if not self._due:
            await self._observer.changed()
            self._due = True
        self._newest = MEMORY.end_of(self._uid) or await self._observer.status()
        self._number += 1
        self._due = False

    async def close(self) -> None:
        await self._observer.close()


_runs: WeakKeyDictionary[Cluster, dict[JobRef, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def _shared(cluster: Cluster, ref: JobRef) -> AsyncIterator[_Shared]:
    runs = _runs.setdefault(cluster, {})
    run = runs.get(ref)
    if run is None:
        run = runs[ref] = _Shared(cluster, ref)
    run.users += 1
    try:
        yield run
    finally:
        run.users -= 1
        if not run.users:
            del runs[ref]
            await run.close()
