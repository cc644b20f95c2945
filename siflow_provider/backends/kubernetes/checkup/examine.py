"""Looks at everything that a task on a connection needs, in each context and namespace that the connection knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.checkup.named import Wanted, compare, wanted_of
from siflow_provider.backends.kubernetes.checkup.rights import ask_rights, rights_checks
from siflow_provider.backends.kubernetes.checkup.rules import rules_for
from siflow_provider.backends.kubernetes.checkup.served import served_checks
from siflow_provider.backends.kubernetes.checkup.taking import try_job
from siflow_provider.backends.kubernetes.cluster.features import server_version
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import CLAIMS, LOCALQUEUES, NAMESPACES, PRIORITYCLASSES
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life.places import Places
from siflow_provider.backends.kubernetes.queueing.source import reader_of
from siflow_provider.core.checkup import Check
from siflow_provider.errors import SiflowError
from siflow_provider.spec.catalog import load_catalog

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from siflow_provider.backends.kubernetes.cluster.features import Features
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.backends.settings import Settings

__all__ = ["check_kubernetes"]

_PACE = Pace(tries=3.0)


async def check_kubernetes(settings: Settings) -> list[Check]:
    """Look at everything that a task on this connection needs. Never raises for what is wrong: it says so.

    Example:
        for check in await check_kubernetes(settings): print(check.name, check.ok, check.found)
    """
    places = Places()
    wanted: dict[str, Wanted] = {}
    if settings.catalog is not None:
        try:
            await asyncio.to_thread(places.read, settings)
            wanted = wanted_of(await asyncio.to_thread(load_catalog, settings.catalog))
        except SiflowError:  # the catalog has a check of its own; the cluster is looked at all the same
            places, wanted = Places(), {}
    if settings.default_queue:
        queues = wanted.setdefault("", Wanted()).queues.setdefault("", {})
        queues.setdefault(settings.default_queue, []).append("the connection's default_queue")
    contexts = places.contexts()
    found = await asyncio.gather(
        *(_context(settings, context, places, wanted.get(context, Wanted())) for context in contexts)
    )
    return [check for checks in found for check in checks]


async def _context(settings: Settings, context: str, places: Places, wanted: Wanted) -> list[Check]:
    try:
        async with open_cluster(settings, context, pace=_PACE) as cluster:
            namespaces = places.namespaces(context, cluster.namespace)
            checks = await _cluster(cluster, namespaces, wanted, settings.training_api)
    except SiflowError as error:
        checks = [Check("API server", False, error.message, error.hint or "correct the connection's login")]
    return [replace(check, name=f"{context}: {check.name}") for check in checks] if context else checks


async def _cluster(cluster: Cluster, namespaces: list[str], wanted: Wanted, training_api: str) -> list[Check]:
    features = await cluster.features()
    served = {"PyTorchJob": features.pytorchjob, "TrainJob": features.trainjob, "RayJob": features.rayjob}
    kinds = [kind for kind in (features.training_api(training_api), "RayJob") if served[kind]]
    version, missing, spaces, taken, named = await asyncio.gather(
        server_version(cluster.api),
        ask_rights(cluster.api, rules_for(features, training_api), namespaces),
        asyncio.gather(*(_namespace(cluster, namespace) for namespace in namespaces)),
        asyncio.gather(*(try_job(cluster.api, kind, namespace) for kind in kinds for namespace in namespaces)),
        _named(cluster, features, wanted),
    )
    return [*served_checks(features, training_api, version=version), *spaces, *rights_checks(missing), *taken, *named]


async def _namespace(cluster: Cluster, namespace: str) -> Check:
    there = await reader_of(cluster).one(NAMESPACES, None, namespace)
    name = f"namespace {namespace}"
    if there is None:
        return Check(name, True, "may not be looked at", needed=False)
    if not there:
        return Check(name, False, "does not exist", f"kubectl create namespace {namespace}, or correct the catalog")
    return Check(name, True, str((there[0].get("status") or {}).get("phase") or "exists"))


async def _named(cluster: Cluster, features: Features, wanted: Wanted) -> list[Check]:
    read = reader_of(cluster)
    work: list[Awaitable[Check]] = []

    async def look(what: str, place: str, wants: dict[str, list[str]]) -> Check:
        resource = {"LocalQueue": LOCALQUEUES, "WorkloadPriorityClass": PRIORITYCLASSES}.get(what, CLAIMS)
        return compare(what, place, wants, await read.items(resource, place or None))

    if features.kueue:
        work += [
            look("LocalQueue", place or cluster.namespace, wants) for place, wants in wanted.queues.items() if wants
        ]
        if wanted.priorities:
            work.append(look("WorkloadPriorityClass", "", wanted.priorities))
    work += [
        look("PersistentVolumeClaim", place or cluster.namespace, wants)
        for place, wants in wanted.claims.items()
        if wants
    ]
    return list(await asyncio.gather(*work))
