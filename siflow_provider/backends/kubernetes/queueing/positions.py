"""Places in the queue: one question per LocalQueue and interval, whatever the number of tasks that wait in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import NotFound
from siflow_provider.backends.kubernetes.cluster.resources import Resource
from siflow_provider.backends.kubernetes.queueing.line import Line, standings
from siflow_provider.errors import AccessDenied, BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["Positions"]

_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
_PAGE = 1000
_SECONDS_PER_TASK = 0.005
"""A line of ten thousand is ten pages: it is looked at every 50 s."""
_FORGET = 3600.0


@dataclass(slots=True)
class _Queue:
    line: Line = field(default_factory=Line)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_look: float = 0.0
    asked: float = 0.0
    looked: bool = False
    trouble: str = ""


class Positions:
    """Where tasks stand in their queues, on one cluster.

    Args:
        api: the cluster.
        interval: seconds between two looks at one queue, while anybody asks.

    Example:
        place, text = await positions.place("ml", "gpu", "pytorchjob-train-1a2b3")
    """

    def __init__(self, api: Api, *, interval: float = 5.0) -> None:
        self.interval = interval
        self._api = api
        self._queues: dict[tuple[str, str], _Queue] = {}

    async def place(self, namespace: str, local_queue: str, workload: str) -> tuple[int | None, str]:
        """Return the Workload's place, from 1, and a sentence; None when it does not wait there or can't be known.

        Never raises for what the API server answers: a place is a hint. While a look is under way, the last one
        answers.
        """
        now = asyncio.get_running_loop().time()
        queue = self._queues.setdefault((namespace, local_queue), _Queue())
        queue.asked = now
        if now >= queue.next_look and not (queue.looked and queue.looking.locked()):
            async with queue.looking:
                if asyncio.get_running_loop().time() >= queue.next_look:
                    await self._look(namespace, local_queue, queue)
        place, text = queue.line.tell(workload, asyncio.get_running_loop().time())
        return place, text or queue.trouble

    async def _look(self, namespace: str, local_queue: str, queue: _Queue) -> None:
        clock = asyncio.get_running_loop()
        try:
            items = await self._waiting(namespace, local_queue)
        except AccessDenied:
            queue.trouble = "its place in the queue may not be read (visibility.kueue.x-k8s.io, localqueues)"
        except NotFound:
            queue.trouble = ""  # no such queue, or a cluster that does not tell
        except BackendError as error:
            queue.trouble = f"its place in the queue is not known: {error}"
        else:
            queue.trouble = ""
            queue.line.update(standings(items, namespace), clock.time())
        queue.looked = True
        queue.next_look = clock.time() + max(self.interval, _SECONDS_PER_TASK * len(queue.line))
        self._forget(clock.time())

    async def _waiting(self, namespace: str, local_queue: str) -> list[dict[str, Any]]:
        path = _QUEUES.path(namespace, local_queue, "pendingworkloads")
        items: list[dict[str, Any]] = []
        while True:
            page = await self._api.get(path, {"limit": str(_PAGE), "offset": str(len(items))})
            found = page.get("items") or []
            items += found
            if len(found) < _PAGE:
                return items

    def _forget(self, now: float) -> None:
        for key in [key for key, queue in self._queues.items() if now - queue.asked > _FORGET]:
            del self._queues[key]
