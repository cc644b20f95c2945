"""Stop and delete: first a mark that says who asked, then the deletion, then until nothing of it is left.

A job is never suspended to stop it: a queue that has admitted it would start it again. What has ended is kept, with its
logs and results, until it is deleted.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import Conflict, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import PODS, WORKLOADS, resource_of
from siflow_provider.backends.kubernetes.cluster.shared import ref_key
from siflow_provider.backends.kubernetes.life.look import get_job, has_ended, judge, look, look_closely, queue_label
from siflow_provider.backends.kubernetes.life.marks import is_leaving, stop_notes, stopped_by
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.life.room import note_change
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.status import JobRef

__all__ = ["delete", "stop"]

_GRACE_SECONDS = 30.0
"""What a pod has to end when it does not say otherwise."""
_SLACK_SECONDS = 30.0
"""How long what is left may be there after that."""
_TRIES = 5


async def stop(cluster: Cluster, ref: JobRef, *, by: str, wait: bool = True) -> None:
    """End a run that has not ended, and return when nothing of it runs any more, also where its job is gone already.

    Without `wait` return once its job is marked and deleted: its pods get their grace.

    Raises:
        BackendUnavailable: it is deleted, and its pods are still there half a minute after their grace; calling again
            waits on. Or its job could not be marked, since others changed it all the while.
        BackendError: the API server refuses.
    """
    job = await get_job(cluster, ref)
    if job is None:  # its pods go after it, and an earlier stop may not have had the patience
        if wait:
            await _until_nothing(_Left(cluster, ref, queued=False))
        return
    if has_ended(ref, job):
        return
    already = stopped_by(job) is not None
    seen, marked = await asyncio.gather(look_closely(cluster, ref), _same(job) if already else _mark(cluster, ref, by))
    if marked is None or has_ended(ref, marked):  # it was quicker
        return
    MEMORY.bury(marked)
    await _remove(cluster, ref, marked, wait=wait)
    await judge(cluster, ref, replace(seen, job=None, gone=marked, gone_at=datetime.now(UTC)))


async def delete(cluster: Cluster, ref: JobRef) -> None:
    """Remove a run, stopping it first where it has not ended.

    Raises:
        BackendError: as `stop`.
    """
    await stop(cluster, ref, by="the deletion of the run")
    job = await get_job(cluster, ref)
    if job is None:
        return
    await look(cluster, ref)  # how it ended is remembered
    MEMORY.bury(job)
    await _remove(cluster, ref, job)


async def _same(job: dict[str, Any]) -> dict[str, Any] | None:
    return job


async def _mark(cluster: Cluster, ref: JobRef, by: str) -> dict[str, Any] | None:
    """Write who asked on the job and return it as it is then; None when it is gone."""
    patch = {"metadata": {"uid": ref.uid, "annotations": stop_notes(by)}}
    for _ in range(_TRIES):
        with suppress(NotFound, Conflict):
            return await cluster.api.patch(resource_of(ref).path(ref.namespace, ref.name), patch)
        # gone, or another job has its name now; else the controller wrote at the same moment, again and again
        if await get_job(cluster, ref) is None:
            return None
    raise BackendUnavailable(f"{ref.name} could not be marked as stopped: it changes all the time.")


async def _remove(cluster: Cluster, ref: JobRef, job: dict[str, Any], *, wait: bool = True) -> None:
    if not is_leaving(job):
        try:
            await cluster.api.delete(resource_of(ref).path(ref.namespace, ref.name), uid=ref.uid)
        except Conflict:
            return
    if wait:
        await _until_nothing(_Left(cluster, ref, queued=queue_label(job) is not None))
    note_change(cluster)


async def _until_nothing(left: _Left) -> None:
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(None) as limit:
            await left.until_nothing(lambda seconds: limit.reschedule(started + seconds))
    except TimeoutError:
        raise BackendUnavailable(
            f"{left.name} is deleted, and {', '.join(left.last)} has not ended {left.patience:g} s later.",
            hint="The node may be out of reach: a pod there keeps its place until the node is back or removed.",
        ) from None


class _Left:
    """What is still there of a run that was deleted.

    Attributes:
        name: the run's.
        last: names of what was left at the last look.
        patience: seconds that all of it has to go: the longest grace of its pods seen so far, and some.
    """

    def __init__(self, cluster: Cluster, ref: JobRef, *, queued: bool) -> None:
        self.name = ref.name
        self.last: list[str] = []
        self.patience = _GRACE_SECONDS + _SLACK_SECONDS
        self._ref = ref
        self._key = ref_key(ref)
        self._jobs = cluster.store(resource_of(ref), ref.namespace)
        self._pods = cluster.store(PODS, ref.namespace)
        self._workloads = cluster.store(WORKLOADS, ref.namespace) if queued else None

    async def until_nothing(self, allow: Callable[[float], None]) -> None:
        """Return when nothing is left, as far as this login may look; `allow` is told the patience at each look."""
        allow(self.patience)
        wake = asyncio.Event()
        watched = [(self._jobs, self._key, self._ref.name), (self._pods, self._key, "")]
        if self._workloads is not None:
            watched.append((self._workloads, self._ref.uid, ""))
        async with AsyncExitStack() as stack:
            for store, key, name in watched:
                await store.ready()
                if name or store.alone is None:
                    await stack.enter_async_context(store.subscribe(key, name=name, wake=wake))
            while left := self.names():
                self.last = left
                graces = [_grace(pod) for pod in self._pods.objects(self._key)]
                self.patience = max([self.patience, *(grace + _SLACK_SECONDS for grace in graces)])
                allow(self.patience)
                await wake.wait()
                wake.clear()

    def names(self) -> list[str]:
        """Return what is left; a job that was submitted again under the same name is not."""
        jobs = self._jobs.objects(self._key)
        later = min((_made(job) for job in jobs if uid(job) != self._ref.uid), default=None)
        left = [job for job in jobs if uid(job) == self._ref.uid]
        left += [pod for pod in self._pods.objects(self._key) if later is None or _made(pod) < later]
        if self._workloads is not None:
            left += self._workloads.objects(self._ref.uid)
        return [str(thing["metadata"]["name"]) for thing in left]


def _grace(pod: dict[str, Any]) -> float:
    """Return the seconds that a pod has to end: what its deletion gave it, before that what it asks for."""
    given = pod["metadata"].get("deletionGracePeriodSeconds")
    asked = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return float(next((seconds for seconds in (given, asked) if seconds is not None), _GRACE_SECONDS))


def _made(thing: dict[str, Any]) -> str:
    return str(thing["metadata"].get("creationTimestamp") or "")
