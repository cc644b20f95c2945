"""Which tasks are one run, and which of them counts.

The platform takes no client token, so a creation whose answer was lost, or two processes at once, may leave two tasks
of one attempt. The oldest live one counts, the others are stopped and the log says so; every process decides alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.backends.platform.mark import read_mark
from siflow_provider.backends.platform.state import phase_of
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from siflow_provider.backends.platform.mark import Mark
    from siflow_provider.backends.platform.tasks import Tasks
    from siflow_provider.backends.platform.wire import Brief

__all__ = ["Run", "groups", "keep_one", "leader"]

log = logging.getLogger(__name__)

Run = tuple[str, int]
"""The run's own id and the attempt."""


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


async def keep_one(tasks: Tasks, group: list[tuple[Mark, Brief]]) -> tuple[Mark, Brief]:
    """Return the task that counts, and stop every other one that is alive."""
    kept = leader(group)
    for mark, task in group:
        if task.uuid == kept[1].uuid or phase_of(task.status).terminal or task.status.lower() == "stopping":
            continue
        log.warning("two tasks of one run: %s (%s) is kept, %s is stopped", mark.name, kept[1].uuid, task.uuid)
        try:
            await tasks.stop(task.uuid)
        except NotFound:
            log.info("%s is gone already", task.uuid)
    return kept
