"""The pods of one run as they are now, kept for its readers, and how long it is worth to wait for more of each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from siflow_provider.backends.kubernetes.cluster.shared import ref_key
from siflow_provider.backends.kubernetes.logs.pods import is_over
from siflow_provider.backends.kubernetes.state.objects import Object, dig, uid
from siflow_provider.backends.kubernetes.state.replicas import replica_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.core.status import JobRef

__all__ = ["Objects", "PodView"]

_SETTLE_SECONDS = 5.0
"""After the run's end its pods get so long to show that they are ending; what does not (a cluster that is kept for
debugging) is read as far as it is."""
_GRACE_SECONDS = 30
_MARGIN_SECONDS = 30.0


class Objects(Protocol):
    """What is needed of the shared stores of pods and jobs."""

    def objects(self, key: str) -> tuple[Object, ...]:
        """Return the run's objects."""
        ...

    def last_seen_deleted(self, key: str) -> Object | None:
        """Return the last state of an object that is gone, by its uid."""
        ...


class PodView:
    """The run's pods by uid, those that went while it was looked at included.

    Attributes:
        key: the run's, in the stores.
        ended: whether the run is known to have ended.
    """

    def __init__(self, ref: JobRef, pods: Objects, jobs: Objects | None) -> None:
        self.ended = False
        self._ref, self._pods, self._jobs = ref, pods, jobs
        self.key = ref_key(ref)
        self._seen: dict[str, Object] = {}
        self._gone: set[str] = set()
        self._ended_at = 0.0
        self._news = asyncio.Event()

    def refresh(self) -> None:
        """Look at the stores again."""
        now = {uid(pod): pod for pod in self._pods.objects(self.key)}
        for gone in self._seen.keys() - now.keys() - self._gone:
            self._seen[gone] = self._pods.last_seen_deleted(gone) or self._seen[gone]
            self._gone.add(gone)
        self._gone -= now.keys()
        self._seen.update(now)
        self.tell()

    def names(self) -> Mapping[str, str]:
        """Return pod uid -> replica, for the pods that are there, those that were made first in front."""
        there = sorted(
            (pod for key, pod in self._seen.items() if key not in self._gone),
            key=lambda pod: str(dig(pod, "metadata", "creationTimestamp") or ""),
        )
        jobs = self._jobs.objects(self.key) if self._jobs is not None else ()
        job = next((job for job in jobs if uid(job) == self._ref.uid), {})
        return replica_names(self._ref.kind, job, there)

    def pod(self, pod_uid: str) -> Object:
        """Return a pod, or its last state."""
        return self._seen[pod_uid]

    def version(self, pod_uid: str) -> tuple[object, bool]:
        """Return what differs once the pod has changed."""
        return dig(self._seen[pod_uid], "metadata", "resourceVersion"), pod_uid in self._gone

    def is_gone(self, pod_uid: str) -> bool:
        """Say whether the cluster has the pod no more."""
        return pod_uid in self._gone

    def end(self) -> None:
        """Take note that the run has ended."""
        if not self.ended:
            self.ended, self._ended_at = True, asyncio.get_running_loop().time()
            self.tell()

    def patience(self, pod_uid: str) -> float | None:
        """Return for how many seconds more of the pod is worth waiting for; 0.0 for no longer, None for no limit."""
        pod = self._seen[pod_uid]
        if pod_uid in self._gone or is_over(pod):
            return 0.0
        if not self.ended:
            return None
        length = _SETTLE_SECONDS
        if dig(pod, "metadata", "deletionTimestamp") is not None:
            grace = dig(pod, "metadata", "deletionGracePeriodSeconds")
            length = float(grace if grace is not None else _GRACE_SECONDS) + _MARGIN_SECONDS
        return max(0.0, self._ended_at + length - asyncio.get_running_loop().time())

    def tell(self) -> None:
        """Wake everyone who waits for news."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def changed(self, seconds: float | None = None) -> None:
        """Wait for news, or for so long."""
        news = self._news
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return
