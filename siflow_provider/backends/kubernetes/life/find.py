"""Finds runs by the labels of their jobs, or by their names where the login may not list jobs.

A run's own id is unique, so it is looked for in all namespaces where the login may list them. What is found by less
(a name, or nothing) may be somebody else's, of another Airflow on the same cluster: there only the namespaces of the
connection and its catalog are looked at.

Without the right to list them jobs are asked for one by one, by the names that the run's attempts have: the same names
that a submission would give them, so that there are never two jobs for one try.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

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
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.backends.kubernetes.life.wanted import Wanted
    from siflow_provider.core.status import JobRef, Status

__all__ = ["Place", "all_statuses", "find_attempts", "find_named", "newest_first"]

log = logging.getLogger(__name__)

_told: WeakSet[Cluster] = WeakSet()
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


async def find_attempts(place: Place, wanted: Wanted) -> list[FoundRun]:
    """Return the attempts of the runs, or those of that number, the newest first; also leaving ones."""
    query, kinds = {"labelSelector": selector(list(wanted.runs), wanted.attempt)}, await _kinds(place, wanted.kind)
    with suppress(Denied):
        return _found(place, await _jobs(place, kinds, [None], query))
    try:
        return _found(place, await _jobs(place, kinds, place.namespaces, query))
    except Denied as error:
        there = [one for one in await _by_names(place, kinds, wanted) if one.ref.task_uuid in wanted.runs]
        if not there and None in wanted.runs.values():
            raise  # there may be attempts whose names are not known
        _tell_once(place.cluster, error)
        return [one for one in there if wanted.attempt in {None, one.ref.attempt}]


async def find_named(place: Place, name: str) -> list[JobRef]:
    """Return the runs of that name, one a namespace and kind at most, the newest first; what is leaving is gone."""
    query, kinds = {"labelSelector": selector(), "fieldSelector": f"metadata.name={name}"}, await _kinds(place)
    try:
        found = _found(place, await _jobs(place, kinds, place.namespaces, query))
    except Denied as error:
        _tell_once(place.cluster, error)
        found = await _got(place, kinds, [name])
    return [one.ref for one in found if not one.leaving]


async def all_statuses(place: Place) -> list[Status]:
    """Return every run of ours, the newest first, as far as lists alone tell: without events and last lines."""
    cluster, namespaces, ours = place.cluster, place.namespaces, {"labelSelector": selector()}
    blind: _Blind = {}
    jobs, pods, clusters, workloads = await asyncio.gather(
        _jobs(place, await _kinds(place), namespaces, ours),
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


def _found(place: Place, jobs: Iterable[dict[str, Any]]) -> list[FoundRun]:
    """Return where the jobs of ours are, and which of them are being deleted."""
    return [FoundRun(ref, is_leaving(job)) for job in jobs if (ref := ref_of(job, context=place.context)) is not None]


async def _by_names(place: Place, kinds: _Kinds, wanted: Wanted) -> list[FoundRun]:
    """Return the jobs of ours that have the names of the runs' attempts, as far as these are known."""
    if wanted.known:
        return await _got(place, kinds, [wanted.known])
    each = [_attempts_of(place, kinds, wanted, name) for name in wanted.runs.values() if name is not None]
    return [one for found in await asyncio.gather(*each) for one in found]


async def _attempts_of(place: Place, kinds: _Kinds, wanted: Wanted, name: Callable[[int], str]) -> list[FoundRun]:
    if wanted.attempt is not None:
        return await _got(place, kinds, [name(wanted.attempt)])
    found: list[FoundRun] = []
    first = 1
    while True:
        more = await _got(place, kinds, [name(number) for number in range(first, first + wanted.gap)])
        if not more:
            return found
        found, first = [*more, *found], first + wanted.gap


async def _got(place: Place, kinds: _Kinds, names: Sequence[str]) -> list[FoundRun]:
    """Return the runs of these names, read one by one, the newest first."""

    async def one(kind: Resource, namespace: str | None, name: str) -> list[dict[str, Any]]:
        try:
            return [await place.cluster.api.get(kind.path(namespace, name))]
        except NotFound:
            return []

    asked = [
        _seen_where_used(kinds, kind, partial(one, kind, namespace, name))
        for kind in kinds.all
        for namespace in place.namespaces
        for name in names
    ]
    return _found(place, _in_order(await asyncio.gather(*asked)))


def _tell_once(cluster: Cluster, error: Denied) -> None:
    """Say for each cluster once what the missing right costs: names that a form gave otherwise are not found."""
    if cluster not in _told:
        _told.add(cluster)
        log.warning("jobs can't be listed, so earlier runs are looked for by their names alone: %s", error)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Kinds of job to look for; `unused` is the training API that is not used now, and may be closed to the login."""

    all: tuple[Resource, ...]
    unused: Resource


async def _kinds(place: Place, form: str | None = None) -> _Kinds:
    """Return what a form of this kind can have become, or one of any kind."""
    features = await place.cluster.features()
    trains = features.training_api(place.training_api) == "TrainJob"
    used, unused = (TRAINJOBS, PYTORCHJOBS) if trains else (PYTORCHJOBS, TRAINJOBS)
    if form is not None:
        return _Kinds((RAYJOBS if form == "RayJob" else used,), unused)
    return _Kinds((PYTORCHJOBS, RAYJOBS, *((TRAINJOBS,) if features.trainjob else ())), unused)


async def _seen_where_used(
    kinds: _Kinds, kind: Resource, ask: Callable[[], Awaitable[list[dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """Ask, and take a refusal for an empty answer where the kind is not in use; who is cancelled first asks nothing."""
    try:
        return await ask()
    except Denied:
        if kind is not kinds.unused:
            raise
        return []


async def _jobs(
    place: Place, kinds: _Kinds, namespaces: Iterable[str | None], query: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the jobs of these kinds; of the training API that is not used now only where that may be seen."""
    asked = [
        _seen_where_used(kinds, kind, partial(_listed, place.cluster, kind, namespace, query))
        for kind in kinds.all
        for namespace in namespaces
    ]
    return _in_order(await asyncio.gather(*asked))


def _in_order(found: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
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
