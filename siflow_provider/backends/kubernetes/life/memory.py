"""What this process saw last of runs that are over: Kubernetes keeps no object that was stopped.

A run that has ended stays as it ended, also once its job is deleted; who stopped a run and asks again is told so. Other
processes learn of a stop from the mark on the job that the watch shows last.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from siflow_provider.core.status import Status

__all__ = ["MEMORY", "Memory"]

_LIMIT = 2000


class Memory:
    """The last words about runs, by the uid of their job; the oldest are forgotten.

    Args:
        limit: how many are kept.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._ended: OrderedDict[str, Status] = OrderedDict()
        self._deleted: OrderedDict[str, bytes] = OrderedDict()
        self._gone: OrderedDict[str, dict[str, str]] = OrderedDict()

    def keep(self, status: Status) -> None:
        """Take a snapshot; only an end that a run really had is kept, and the first one stays."""
        if status.phase.terminal and status.phase is not Phase.LOST and not status.leftover:
            self._ended.setdefault(status.ref.uid, status)
            _shorten(self._ended, self._limit)

    def end_of(self, uid: str) -> Status | None:
        """Return how the run ended, where this process saw it."""
        return self._ended.get(uid)

    def bury(self, job: Mapping[str, Any]) -> None:
        """Take the last state of a job that this process deletes; kept as JSON, in a tenth of the memory."""
        metadata = {name: value for name, value in job["metadata"].items() if name != "managedFields"}
        self._deleted[uid(job)] = json.dumps({**job, "metadata": metadata}, separators=(",", ":")).encode()
        _shorten(self._deleted, self._limit)

    def deleted(self, uid: str) -> Mapping[str, Any] | None:
        """Return the last state of a job that this process deleted."""
        kept = self._deleted.get(uid)
        found: dict[str, Any] | None = None if kept is None else json.loads(kept)
        return found

    def see_gone(self, job: Mapping[str, Any]) -> None:
        """Take the last state of a job that was seen to go, whoever deleted it; its annotations are kept."""
        self._gone[uid(job)] = dict(job["metadata"].get("annotations") or {})
        _shorten(self._gone, self._limit)

    def notes_of_gone(self, uid: str) -> Mapping[str, str] | None:
        """Return the annotations of a job as it was last seen before it was gone; None when nobody here saw it."""
        return self._gone.get(uid)


def _shorten(kept: OrderedDict[str, Any], limit: int) -> None:
    while len(kept) > limit:
        kept.popitem(last=False)


MEMORY = Memory()
"""This process's own; uids are unique over all clusters."""
