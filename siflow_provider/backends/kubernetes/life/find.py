"""Finds runs by the labels of their jobs.

A run's own id is unique, so it is looked for in all namespaces where the login may list them. What is found by less
(a name, or nothing) may be somebody else's, of another Airflow on the same cluster: there only the namespaces of the
connection and its catalog are looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import Denied, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    PODS,
    PYTORCHJOBS,
    RAYCLUSTERS,
    RAYJOBS,
    TRAINJOBS,
    WORKLOADS,
    Resource,
)
from siflow_provider.backends.kubernetes.cluster.shared import run_key, uid_key
from siflow_provider.backends.kubernetes.life.evidence import veiled
from siflow_provider.backends.kubernetes.life.marks import is_leaving, ref_of, selector, submitted_order
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.state.objects import Seen, uid
from siflow_provider.backends.kubernetes.state.queue import newest_workload
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.protocol import FoundRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.status import JobRef, Status

__all__ = ["Place", "all_statuses", "find_attempts", "find_named", "newest_first"]

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs may be.

    Attributes:
        cluster: an open one.
        context: its name in a ref.
        namespaces: those of the connection and its catalog, and of the tasks that this process works on.
        training_api: the connection's word on what a form of kind PyTorchJob becomes.
    """

    cluster: Cluster
    context: str
    namespaces: Sequence[str]
    training_api: str = "auto"


async def find_attempts(place: Place, run: str | Sequence[str], attempt: int | None = None) -> list[FoundRun]:
    """Return the attempts of one run or of several, or those of that number, the newest first; also leaving ones."""
    query = {"labelSelector": selector(run, attempt)}
    try:
        jobs = await _jobs(place, [None], query)
    except Denied:
        jobs = await _jobs(place, place.namespaces, query)
    return [FoundRun(ref, is_leaving(job)) for job in jobs if (ref := ref_of(job, context=place.context)) is not None]


async def find_named(place: Place, name: str) -> list[JobRef]:
    """Return the runs of that name, one a namespace and kind at most, the newest first; what is leaving is gone."""
    query = {"labelSelector": selector(), "fieldSelector": f"metadata.name={name}"}
    jobs = await _jobs(place, place.namespaces, query)
    found = (ref_of(job, context=place.context) for job in jobs if not is_leaving(job))
    return [ref for ref in found if ref is not None]


async def all_statuses(place: Place) -> list[Status]:
    """Return every run of ours, the newest first, as far as lists alone tell: without events and last lines."""
    cluster, namespaces, ours = place.cluster, place.namespaces, {"labelSelector": selector()}
    blind: _Blind = {}
    jobs, pods, clusters, workloads = await asyncio.gather(
        _jobs(place, namespaces, ours),
        _seen_of(cluster, PODS, namespaces, ours, blind),
        _seen_of(cluster, RAYCLUSTERS, namespaces, ours, blind),
        _seen_of(cluster, WORKLOADS, namespaces, {}, blind),
    )
    parts = (_by(run_key, pods), _by(run_key, clusters), _by(uid_key, workloads))
    found = []
    for job in jobs:
        ref = ref_of(job, context=place.context)
        if ref is not None and not is_leaving(job):
            found.append(MEMORY.end_of(ref.uid) or veiled(status_of(ref, _seen(job, *parts, blind), datetime.now(UTC))))
    return found


def newest_first(statuses: Iterable[Status]) -> list[Status]:
    """Return the runs of several places in one order; one that two contexts lead to counts once, under the first."""
    once: dict[str, Status] = {}
    for status in statuses:
        once.setdefault(status.ref.uid, status)
    return sorted(once.values(), key=lambda status: status.submitted_at or _NEVER, reverse=True)


_Found = dict[str, list[dict[str, Any]]]
_Blind = dict[str, set[str]]
"""Namespace -> plurals of the kinds that may not be listed there."""


def _seen(job: dict[str, Any], pods: _Found, clusters: _Found, workloads: _Found, blind: _Blind) -> Seen:
    key = run_key(job) or ""
    return Seen(
        job=job,
        workload=newest_workload(workloads.get(uid(job), [])),
        clusters=tuple(clusters.get(key, [])),
        pods=tuple(pods.get(key, [])),
        blind=frozenset(blind.get(job["metadata"]["namespace"], ())),
    )


async def _jobs(place: Place, namespaces: Iterable[str | None], query: dict[str, str]) -> list[dict[str, Any]]:
    """Return the jobs of each kind; of the training API that is not used now only where that may be seen."""
    features = await place.cluster.features()
    unused = PYTORCHJOBS if features.training_api(place.training_api) == "TrainJob" else TRAINJOBS
    kinds = [PYTORCHJOBS, RAYJOBS, *([TRAINJOBS] if features.trainjob else [])]
    wanted = [(kind, namespace) for kind in kinds for namespace in namespaces]

    async def listed(kind: Resource, namespace: str | None) -> list[dict[str, Any]]:
        try:
            return await _listed(place.cluster, kind, namespace, query)
        except Denied:
            if kind is not unused:
                raise
            return []

    found = await asyncio.gather(*(listed(kind, namespace) for kind, namespace in wanted))
    return sorted((job for jobs in found for job in jobs), key=submitted_order, reverse=True)


async def _seen_of(
    cluster: Cluster, resource: Resource, namespaces: Iterable[str], query: dict[str, str], blind: _Blind
) -> list[dict[str, Any]]:
    """Return what of a kind may be listed, and note where it may not."""
    found: list[dict[str, Any]] = []
    for namespace in namespaces:
        try:
            found += await _listed(cluster, resource, namespace, query)
        except Denied:
            blind.setdefault(namespace, set()).add(resource.plural)
    return found


async def _listed(
    cluster: Cluster, resource: Resource, namespace: str | None, query: dict[str, str]
) -> list[dict[str, Any]]:
    try:
        items = (await cluster.api.list(resource.path(namespace), query))["items"]
    except NotFound:  # a kind that the cluster does not know
        return []
    # lists leave out what each item is
    return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items]


def _by(key_of: Callable[[dict[str, Any]], str | None], items: Iterable[dict[str, Any]]) -> _Found:
    found: _Found = {}
    for item in items:
        found.setdefault(key_of(item) or "", []).append(item)
    return found
