"""Which tasks are one run, and which of them counts.

The platform takes no client token, so a creation whose answer was lost, or two processes at once, may leave two tasks
of one attempt. The oldest live one counts, the others are stopped and the log says so; every process decides alike.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.mark import read_mark
from siflow_provider.backends.platform.state import phase_of
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.platform.mark import Mark
    from siflow_provider.backends.platform.tasks import Tasks
    from siflow_provider.backends.platform.wire import Brief

__all__ = ["Run", "Twins", "groups", "leader"]

log = logging.getLogger(__name__)

Run = tuple[str, int]
"""The run's own id and the attempt."""
_STOPPED_AGAIN_AFTER = 60.0
"""Seconds until a task that did not stop, or could not be stopped, is asked to once more."""


def groups(tasks: Iterable[Brief]) -> dict[Run, list[tuple[Mark, Brief]]]:
    """Return our tasks by run and attempt; tasks of others are left out."""
    found: dict[Run, list[tuple[Mark, Brief]]] = {}
    for task in tasks:
        mark = read_mark(task)
        if mark is not None:
            found.setdefault((mark.run, mark.attempt), []).append((mark, task))
    return found


def leader(group: list[tuple[Mark, Brief]]) -> tuple[Mark, Brief]:
    """Return the task that counts: the oldest live one, else the oldest that ended by itself, else the oldest."""
    return min(group, key=lambda item: (_rank(item[1]), _age(item[1]), item[1].uuid))


def _rank(task: Brief) -> int:
    phase = phase_of(task.status)
    if not phase.terminal:
        return 0
    return 2 if phase is Phase.STOPPED else 1


def _age(task: Brief) -> float:
    return task.create_time.timestamp() if task.create_time is not None else 0.0


class Twins:
    """Keeps one task of each run.

    Args:
        tasks: the task service.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._not_before: dict[str, float] = {}

    async def keep_one(self, group: list[tuple[Mark, Brief]]) -> tuple[Mark, Brief]:
        """Return the task that counts, and stop every other one that is alive.

        One that can't be stopped is told once and tried again later: the task that counts is followed all the same.
        """
        kept = leader(group)
        for mark, task in group:
            ending = phase_of(task.status).terminal or task.status.lower() == "stopping"
            if task.uuid != kept[1].uuid and not ending:
                await self._stop(mark.name, task.uuid, kept[1].uuid)
        return kept

    async def _stop(self, name: str, uuid: str, kept: str) -> None:
        told, now = uuid in self._not_before, time.monotonic()
        if now < self._not_before.get(uuid, now):
            return
        self._not_before[uuid] = now + _STOPPED_AGAIN_AFTER
        if not told:
            log.warning("two tasks of one run: %s (%s) is kept, %s is stopped", name, kept, uuid)
        try:
            await self._tasks.stop(uuid)
        except BackendError as error:
            if not told:
                log.warning("%s can't be stopped now, which is tried again while %s is followed: %s", uuid, name, error)
