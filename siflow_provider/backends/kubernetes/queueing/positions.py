"""Places in the queue: one question per LocalQueue and interval, whatever the number of tasks that wait in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import NotFound
from siflow_provider.backends.kubernetes.cluster.resources import Resource
from siflow_provider.backends.kubernetes.queueing.line import Line, standings
from siflow_provider.errors import AccessDenied, BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["Positions"]

_QUEUES = Resource("visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
_PAGE = 1000
_SECONDS_PER_TASK = 0.005
"""A line of ten thousand is ten pages: it is looked at every 50 s."""
_FORGET = 3600.0
_WOKEN_AT_ONCE = 5
_BREATH_SECONDS = 0.01
"""One that is woken works for two milliseconds; an end needs a dozen rounds of the loop until it is told, so each round
must be short while a long line moves up."""

Told = tuple[int | None, str]
"""A place, from 1, and a sentence about it."""


@dataclass(slots=True, eq=False)
class _Follower:
    workload: str
    wake: asyncio.Event
    told: Told


@dataclass(slots=True)
class _Queue:
    line: Line = field(default_factory=Line)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_look: float = 0.0
    asked: float = 0.0
    looked: bool = False
    trouble: str = ""
    followers: dict[_Follower, None] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None

    def tell(self, workload: str) -> Told:
        place, text = self.line.tell(workload, asyncio.get_running_loop().time())
        return place, text or self.trouble


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

    async def place(self, namespace: str, local_queue: str, workload: str, *, patience: float | None = None) -> Told:
        """Return the Workload's place, from 1, and a sentence; None when it does not wait there or can't be known.

        Never raises for what the API server answers: a place is a hint. While a look is under way, the last one
        answers; where somebody follows the queue, always.

        Args:
            namespace: of the Workload.
            local_queue: where it waits.
            workload: its name.
            patience: seconds after which what is known by then will do; None waits for a look however long it takes.
        """
        now = asyncio.get_running_loop().time()
        queue = self._queue(namespace, local_queue)
        is_known = queue.task is not None or (queue.looked and queue.looking.locked())
        if now >= queue.next_look and not is_known:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._look_once(namespace, local_queue, queue)
        return queue.tell(workload)

    def follow(self, namespace: str, local_queue: str, workload: str, wake: asyncio.Event) -> Callable[[], None]:
        """Set `wake` when the Workload's place or its sentence is another one than now; return what ends that.

        One task looks for all who follow a queue: who waits costs nothing while the line stands still.
        """
        queue = self._queue(namespace, local_queue)
        follower = _Follower(workload, wake, queue.tell(workload))
        queue.followers[follower] = None
        if queue.task is None:  # a task of nobody's log: it serves all
            work = self._keep_looking(namespace, local_queue, queue)
            queue.task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())

        def leave() -> None:
            queue.followers.pop(follower, None)
            if not queue.followers and queue.task is not None:
                queue.task.cancel()
                queue.task = None

        return leave

    def _queue(self, namespace: str, local_queue: str) -> _Queue:
        queue = self._queues.setdefault((namespace, local_queue), _Queue())
        queue.asked = asyncio.get_running_loop().time()
        return queue

    async def _keep_looking(self, namespace: str, local_queue: str, queue: _Queue) -> None:
        time = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(max(0.0, queue.next_look - time()))
            queue.asked = time()
            await self._look_once(namespace, local_queue, queue)
            woken = 0
            for follower in tuple(queue.followers):
                told = queue.tell(follower.workload)
                if told == follower.told:
                    continue
                follower.told = told
                follower.wake.set()
                woken += 1
                if woken % _WOKEN_AT_ONCE == 0:
                    await asyncio.sleep(_BREATH_SECONDS)

    async def _look_once(self, namespace: str, local_queue: str, queue: _Queue) -> None:
        """Look, unless another one just did."""
        async with queue.looking:
            if asyncio.get_running_loop().time() >= queue.next_look:
                await self._look(namespace, local_queue, queue)

    async def _look(self, namespace: str, local_queue: str, queue: _Queue) -> None:
        clock = asyncio.get_running_loop()
        try:
            found = standings(await self._waiting(namespace, local_queue), namespace)
        except AccessDenied:
            queue.trouble = "its place in the queue may not be read (visibility.kueue.x-k8s.io, localqueues)"
        except NotFound:
            queue.trouble = ""  # no such queue, or a cluster that does not tell
        except BackendError as error:
            # the first words stay: each new text would wake all who wait, and have them say so
            queue.trouble = queue.trouble or f"its place in the queue is not known: {error}"
        except (AttributeError, KeyError, TypeError) as error:  # of another shape; no run may end for it
            queue.trouble = f"its place in the queue can't be read ({type(error).__name__} {error})"
        else:
            queue.trouble = ""
            queue.line.update(found, clock.time())
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
        old = [key for key, each in self._queues.items() if not each.followers and now - each.asked > _FORGET]
        for key in old:
            del self._queues[key]
