"""One look at a run by a handful of requests, for who does not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from siflow_provider.backends.kubernetes.cluster.errors import Denied, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    EVENTS,
    PODS,
    RAYCLUSTERS,
    WORKLOADS,
    Resource,
    resource_of,
)
from siflow_provider.backends.kubernetes.cluster.shared import JOB_UID
from siflow_provider.backends.kubernetes.life.evidence import veiled, with_last_lines
from siflow_provider.backends.kubernetes.life.marks import selector
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.names import QUEUE_NAME
from siflow_provider.backends.kubernetes.state.objects import Seen, uid
from siflow_provider.backends.kubernetes.state.queue import newest_workload
from siflow_provider.backends.kubernetes.state.status import phase_of, status_of
from siflow_provider.core.status import Phase, Status

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.status import JobRef

__all__ = ["forget_made", "get_job", "has_ended", "judge", "look", "look_closely", "note_made", "queue_label"]

_FRESH_SECONDS = 2.0
_made: WeakKeyDictionary[Cluster, dict[str, tuple[float, Mapping[str, Any]]]] = WeakKeyDictionary()
_MOST_ASKED = 8
"""Pods of which a look reads the events; the first that are in trouble speak for the others."""


async def look(cluster: Cluster, ref: JobRef) -> Status:
    """Return the snapshot of a run; of one that this process saw end, its end.

    Raises:
        BackendError: the API server refuses, or gives no answer (BackendUnavailable).
    """
    ended = MEMORY.end_of(ref.uid)
    if ended is not None:
        return ended
    made = _taken(cluster, ref)
    return await judge(cluster, ref, await look_closely(cluster, ref) if made is None else Seen(job=made))


def note_made(cluster: Cluster, job: Mapping[str, Any]) -> None:
    """Take the answer to a creation: the first look at the run, if it comes at once, needs no other."""
    made = _made.setdefault(cluster, {})
    made.clear()  # of many that are made together one may be asked for at once
    made[uid(job)] = (asyncio.get_running_loop().time(), job)


def forget_made(cluster: Cluster, ref: JobRef) -> None:
    """Take the answer to a creation for old: whoever watches the run sees newer."""
    _made.get(cluster, {}).pop(ref.uid, None)


def _taken(cluster: Cluster, ref: JobRef) -> Mapping[str, Any] | None:
    """Return the job that this process has just made, once: nothing of it can have begun."""
    at, job = _made.get(cluster, {}).pop(ref.uid, (0.0, None))
    return job if job is not None and asyncio.get_running_loop().time() - at < _FRESH_SECONDS else None


async def judge(cluster: Cluster, ref: JobRef, seen: Seen) -> Status:
    """Return the snapshot that what is seen comes to; an end with its evidence, and remembered."""
    if seen.gone is not None:
        MEMORY.see_gone(seen.gone)
    status = status_of(ref, seen, datetime.now(UTC))
    if status.phase is Phase.FAILED:
        status = await with_last_lines(cluster, status, seen)
    status = veiled(status)
    MEMORY.keep(status)
    return status


async def look_closely(cluster: Cluster, ref: JobRef) -> Seen:
    """Return what the cluster shows of a run now."""
    job = await get_job(cluster, ref)
    if job is None:
        return Seen(gone=MEMORY.deleted(ref.uid), gone_at=datetime.now(UTC))
    blind: set[str] = set()
    ours = {"labelSelector": selector(ref.task_uuid, ref.attempt)}
    pods, clusters, workloads = await asyncio.gather(
        _list(cluster, PODS, ref, ours, blind),
        _list(cluster, RAYCLUSTERS, ref, ours if ref.kind == "RayJob" else None, blind),
        _list(cluster, WORKLOADS, ref, {"labelSelector": f"{JOB_UID}={ref.uid}"} if queue_label(job) else None, blind),
    )
    seen = Seen(job=job, workload=newest_workload(workloads), clusters=clusters, pods=pods, blind=frozenset(blind))
    if phase_of(ref, seen, datetime.now(UTC)) in {Phase.STARTING, Phase.FAILED}:
        return await _with_events(cluster, ref, seen)
    return seen


async def get_job(cluster: Cluster, ref: JobRef) -> dict[str, Any] | None:
    """Return the run's job; None when it is gone, also where another one has its name."""
    try:
        job = await cluster.api.get(resource_of(ref).path(ref.namespace, ref.name))
    except NotFound:
        return None
    return job if uid(job) == ref.uid else None


def has_ended(ref: JobRef, job: Mapping[str, Any]) -> bool:
    """Say whether the job's controller has written its end."""
    seen = Seen(job=job, blind=frozenset({PODS.plural, WORKLOADS.plural, EVENTS.plural}))
    living = job["metadata"].get("deletionTimestamp") is None
    return living and phase_of(ref, seen, datetime.now(UTC)).terminal


def queue_label(job: Mapping[str, Any]) -> str | None:
    """Return the queue that the job waits in or came from; None for one without."""
    found = (job["metadata"].get("labels") or {}).get(QUEUE_NAME)
    return None if not found else str(found)


async def _with_events(cluster: Cluster, ref: JobRef, seen: Seen) -> Seen:
    troubled = [pod for pod in seen.pods if (pod.get("status") or {}).get("phase") in {"Pending", "Failed"}]
    uids = [ref.uid, *(uid(pod) for pod in troubled[:_MOST_ASKED])]
    blind = set(seen.blind)
    found = await asyncio.gather(
        *(_list(cluster, EVENTS, ref, {"fieldSelector": f"involvedObject.uid={each}"}, blind) for each in uids)
    )
    return replace(seen, events=tuple(event for events in found for event in events), blind=frozenset(blind))


async def _list(
    cluster: Cluster, resource: Resource, ref: JobRef, query: dict[str, str] | None, blind: set[str]
) -> tuple[dict[str, Any], ...]:
    """Return the objects of a query; none without one, and none where the login may not look, which is noted."""
    if query is None:
        return ()
    try:
        return tuple((await cluster.api.list(resource.path(ref.namespace), query))["items"])
    except Denied:
        blind.add(resource.plural)
    except NotFound:  # a kind that the cluster does not know
        blind.add(resource.plural)
    return ()
