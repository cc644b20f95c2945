"""Quota as it is now: what this process has stopped a moment ago counts as free.

Kueue publishes what its queues hold about once a second, so who asks right after a stop would be told of the run that
is gone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from siflow_provider.backends.kubernetes.queueing.source import quota, reader_of

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["ask_quota", "note_change"]

_LAG_SECONDS = 10.0
_PAUSE_SECONDS = 0.5
_changed: WeakKeyDictionary[Cluster, float] = WeakKeyDictionary()
_forgotten: WeakKeyDictionary[Cluster, float] = WeakKeyDictionary()


def note_change(cluster: Cluster) -> None:
    """Take note that this process has just made or removed a run: what is known of the queues is out of date."""
    _changed[cluster] = asyncio.get_running_loop().time()
    _forget(cluster)


async def ask_quota(
    cluster: Cluster, task: ResolvedTask, *, idle: bool = True, training_api: str = "auto"
) -> QuotaReport:
    """Return the four answers; a no that may be out of date is asked for again, for some seconds at most.

    Raises:
        BackendError: as `queueing.source.quota`.
    """
    report = await quota(cluster, task, idle=idle, training_api=training_api)
    while not report.fits_now and not report.never and _is_fresh(cluster):
        await asyncio.sleep(_PAUSE_SECONDS)
        if asyncio.get_running_loop().time() - _forgotten[cluster] >= _PAUSE_SECONDS:  # else another one just did
            _forget(cluster)
        report = await quota(cluster, task, idle=idle, training_api=training_api)
    return report


def _forget(cluster: Cluster) -> None:
    _forgotten[cluster] = asyncio.get_running_loop().time()
    reader_of(cluster).forget()


def _is_fresh(cluster: Cluster) -> bool:
    return asyncio.get_running_loop().time() - _changed.get(cluster, -_LAG_SECONDS) < _LAG_SECONDS
