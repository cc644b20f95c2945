"""The pods of tasks, for all who share a connection: what one has asked for the others need not ask for again."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.platform.pace import Pace
    from siflow_provider.backends.platform.tasks import Tasks
    from siflow_provider.backends.platform.wire import Pod

__all__ = ["Pods", "Seen"]

log = logging.getLogger(__name__)

_MINUTE = 60.0
_SHARE_OF_NEWS = 0.5
"""Of the requests of a minute: kept for tasks whose status has changed; the others' pods get the rest."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The pods of a task as they were.

    Attributes:
        pods: in the platform's order.
        status: the task's status word then.
        at: when, by this process's monotonic clock, in seconds.
    """

    pods: tuple[Pod, ...]
    status: str
    at: float


class Pods:
    """Asks for pods.

    Args:
        tasks: the task service.
        pace: how often.
    """

    def __init__(self, tasks: Tasks, pace: Pace) -> None:
        self._tasks, self._pace = tasks, pace
        self._held: dict[str, Seen] = {}
        self._asking: set[str] = set()
        self._asked: deque[float] = deque()

    async def now(self, uuid: str) -> tuple[Pod, ...]:
        """Ask for a task's pods, whatever was asked before; () where there are none, or none may be seen.

        Raises:
            BackendUnavailable: the platform gives no answer.
        """
        self._asked.append(time.monotonic())
        try:
            return tuple(await self._tasks.pods(uuid))
        except NotFound:
            return ()
        except BackendUnavailable:
            raise
        except BackendError as error:  # no run fails for its pods
            log.warning("the pods of %s can't be seen: %s", uuid, error)
            return ()

    async def lately(self, uuid: str, status: str) -> Seen | None:
        """Return the pods of a watched task that lives; asks for them where it is time and the minute has room.

        Args:
            uuid: the task.
            status: its status word.

        Returns:
            What was seen last, maybe in an earlier status; None when nothing was seen yet. Never raises for the
            platform's answers: what can't be had now is asked for later.
        """
        if uuid in self._asking or not self._is_due(self._held.get(uuid), status):
            return self._held.get(uuid)
        self._asking.add(uuid)
        try:
            pods = await self.now(uuid)
        except BackendUnavailable as error:
            log.info("the pods of %s can't be had now: %s", uuid, error)
        else:
            self._held[uuid] = Seen(pods, status, time.monotonic())
        finally:
            self._asking.discard(uuid)
        return self._held.get(uuid)

    def forget(self, uuid: str) -> None:
        """Drop what is held of a task that nobody watches any more."""
        self._held.pop(uuid, None)

    def _is_due(self, held: Seen | None, status: str) -> bool:
        now, room = time.monotonic(), self._pace.pods_per_minute
        while self._asked and now - self._asked[0] >= _MINUTE:
            self._asked.popleft()
        if held is None or held.status != status:
            return len(self._asked) < room
        room *= 1 - _SHARE_OF_NEWS
        # where many run, each waits until it is its turn: none is asked about again and again while others never are
        turn = len(self._held) * _MINUTE / room
        return now - held.at >= max(self._pace.pods, turn) and len(self._asked) < room
