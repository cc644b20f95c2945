"""What all backends of one connection share in one event loop: client, listing, pods, and what is remembered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from siflow_provider.backends.platform.client import Client
from siflow_provider.backends.platform.matches import Run, Twins
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.pods import Pods
from siflow_provider.backends.platform.poller import Poller
from siflow_provider.backends.platform.tasks import Tasks

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.status import Status

__all__ = ["Memory", "Place", "open_place"]

_REMEMBERED = 4096


class _Bounded(OrderedDict[str, "Status"]):
    """Keeps the newest entries."""

    def __setitem__(self, key: str, value: Status) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > _REMEMBERED:
            self.popitem(last=False)


@dataclass
class Memory:
    """What this process knows and the platform does not tell (again).

    Attributes:
        ended: uid -> the last snapshot of an ended run: it never changes, and stays when the run is deleted.
        known: uid -> the last snapshot of a run that has not ended.
        stops: uid -> who asked for the stop.
    """

    ended: _Bounded = field(default_factory=_Bounded)
    known: _Bounded = field(default_factory=_Bounded)
    stops: dict[str, str] = field(default_factory=dict)


class Place:
    """One connection in one event loop.

    Args:
        settings: the connection's.
        pace: how often the platform is asked.
    """

    def __init__(self, settings: Settings, pace: Pace) -> None:
        self.settings, self.pace = settings, pace
        self.client = Client(settings, pace)
        self.tasks = Tasks(self.client)
        self.twins = Twins(self.tasks)
        self.pods = Pods(self.tasks, pace)
        self.poller = Poller(self.tasks, pace, self.twins, unwatched=self.pods.forget)
        self.memory = Memory()
        self._locks: WeakValueDictionary[Run, asyncio.Lock] = WeakValueDictionary()

    def lock(self, run: Run) -> asyncio.Lock:
        """Return the lock that keeps one process from submitting one attempt twice at once."""
        lock = self._locks.get(run)
        if lock is None:
            lock = self._locks[run] = asyncio.Lock()
        return lock

    async def close(self) -> None:
        """End the listing and close all connections."""
        await self.poller.close()
        await self.client.close()


_Key = tuple[object, ...]


@dataclass
class _Shared:
    place: Place
    users: int = 0


_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def open_place(settings: Settings, pace: Pace) -> AsyncIterator[Place]:
    """Open the connection's place, or join whoever has it open in this event loop; the last one closes it.

    Raises:
        UsageError: the connection lacks something.
    """
    places = _OPEN.setdefault(asyncio.get_running_loop(), {})
    key = (settings.host, settings.login, settings.password, settings.region, settings.cluster, settings.proxy, pace)
    shared = places.get(key)
    if shared is None:
        shared = places[key] = _Shared(Place(settings, pace))
    shared.users += 1
    try:
        yield shared.place
    finally:
        shared.users -= 1
        if not shared.users:
            del places[key]
            await shared.place.close()
