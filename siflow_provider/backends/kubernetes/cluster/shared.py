"""One connection to a cluster per process and event loop, shared by every task that waits there.

A triggerer follows hundreds of runs in one loop: they share one login, one session, one TLS context and, for each kind
of object and namespace, one list and one watch. The first user opens it, the last one closes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.features import Features, discover
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import (
    EVENTS,
    JOBS,
    PODS,
    PYTORCHJOBS,
    RAYCLUSTERS,
    RAYJOBS,
    TRAINJOBS,
    WORKLOADS,
    Resource,
)
from siflow_provider.backends.kubernetes.cluster.store import Store
from siflow_provider.backends.kubernetes.cluster.turns import Turns
from siflow_provider.backends.kubernetes.names import LABEL_MANAGED_BY, MANAGED_BY
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.spec.hidden import Hidden

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.status import JobRef

__all__ = ["JOB_UID", "Cluster", "event_key", "name_key", "open_cluster", "ref_key", "run_key", "uid_key"]

JOB_UID = "kueue.x-k8s.io/job-uid"
_FEATURES_LIFETIME = 600.0
_OURS = f"{LABEL_MANAGED_BY}={MANAGED_BY}"


def run_key(item: dict[str, Any]) -> str | None:
    """Return `RUN/ATTEMPT` of a job, pod or RayCluster of ours, by its labels.

    Example:
        >>> run_key({"metadata": {"labels": {"siflow-provider/run": "1f0e", "siflow-provider/attempt": "2"}}})
        '1f0e/2'
    """
    labels = item["metadata"].get("labels") or {}
    run = labels.get(f"{LABEL_PREFIX}run")
    return f"{run}/{labels.get(f'{LABEL_PREFIX}attempt') or 1}" if run else None


def ref_key(ref: JobRef) -> str:
    """Return the key under which `run_key` files what belongs to an attempt of a run."""
    return f"{ref.task_uuid}/{ref.attempt}"


def uid_key(item: dict[str, Any]) -> str | None:
    """Return the uid of the job that a Workload stands for."""
    uid = (item["metadata"].get("labels") or {}).get(JOB_UID)
    return str(uid) if uid else None


def event_key(item: dict[str, Any]) -> str | None:
    """Return the uid of the object that an Event tells of."""
    uid = (item.get("involvedObject") or {}).get("uid")
    return str(uid) if uid else None


def name_key(item: dict[str, Any]) -> str | None:
    """Return the object's name."""
    return str(item["metadata"]["name"])


_KEYS = {
    **dict.fromkeys((PYTORCHJOBS, RAYJOBS, TRAINJOBS, RAYCLUSTERS, PODS, JOBS), run_key),
    WORKLOADS: uid_key,
    EVENTS: event_key,
}
_SELECTED = frozenset({PYTORCHJOBS, RAYJOBS, TRAINJOBS, RAYCLUSTERS, PODS, JOBS})


class Cluster:
    """What the tasks of one event loop share of one cluster. Made by `open_cluster`.

    Attributes:
        api: the API server.
        turns: for those who look at what the stores show, since thousands may be woken together.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.turns = Turns()
        self._stores: dict[tuple[Resource, str | None], Store] = {}
        self._features: tuple[float, Features] | None = None
        self._discovering = asyncio.Lock()

    @property
    def namespace(self) -> str:
        """The namespace to use where nobody names one."""
        return self.api.namespace

    def store(self, resource: Resource, namespace: str | None = None) -> Store:
        """Return the store of one kind in one namespace, started on first use.

        Jobs, pods and RayClusters are those of ours, by `run_key`; Workloads are all, by `uid_key`; Events all, by
        `event_key`; other kinds all, by name.

        Args:
            resource: the kind.
            namespace: None for a kind of the whole cluster, or for the default namespace.
        """
        place = (namespace or self.namespace) if resource.namespaced else None
        store = self._stores.get((resource, place))
        if store is None:
            selector = _OURS if resource in _SELECTED else ""
            store = Store(self.api, resource, place, key=_KEYS.get(resource, name_key), selector=selector)
            self._stores[resource, place] = store
            store.start()
        return store

    async def features(self) -> Features:
        """Return what the cluster has; asked for again every ten minutes."""
        async with self._discovering:
            now = asyncio.get_running_loop().time()
            if self._features is None or now - self._features[0] > _FEATURES_LIFETIME:
                self._features = (now, await discover(self.api))
            return self._features[1]

    async def close(self) -> None:
        """Stop all watches. Idempotent."""
        stores = list(self._stores.values())
        self._stores.clear()
        for store in stores:
            await store.close()


@dataclass
class _Entry:
    """A cluster that is open, and by how many."""

    users: int = 0
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    cluster: Cluster | None = None


_open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Entry]] = WeakKeyDictionary()


@asynccontextmanager
async def open_cluster(settings: Settings, context: str = "", *, pace: Pace | None = None) -> AsyncIterator[Cluster]:
    """Share the connection to a cluster.

    Args:
        settings: the connection.
        context: a context of its kubeconfig; "" for its own.
        pace: how long to wait for what; for tests.

    Raises:
        UsageError: the connection is wrong.
        BackendError: its plugin can't be used, or gave nothing now (BackendUnavailable). No request is sent yet.

    Example:
        async with open_cluster(settings, ref.context) as cluster:
            jobs = cluster.store(PYTORCHJOBS, "ml")
            await jobs.ready()
    """
    entries = _open.setdefault(asyncio.get_running_loop(), {})
    key = _key(settings, context, pace)
    entry = entries.setdefault(key, _Entry())
    entry.users += 1
    try:
        async with entry.opening:
            if entry.cluster is None:
                entry.cluster = await _opened(settings, context, pace)
        yield entry.cluster
    finally:
        entry.users -= 1
        if entry.users == 0:
            # whoever comes from now on opens a new one
            if entries.get(key) is entry:
                del entries[key]
            await _closed(entry.cluster)


async def _opened(settings: Settings, context: str, pace: Pace | None) -> Cluster:
    api = Api(settings, context, pace=pace)
    await api.__aenter__()
    return Cluster(api)


async def _closed(cluster: Cluster | None) -> None:
    if cluster is not None:
        await cluster.close()
        await cluster.api.__aexit__(None, None, None)


def _key(settings: Settings, context: str, pace: Pace | None) -> str:
    """Return a digest of what tells two connections apart; what is hidden counts too and can't be read back."""
    options = {
        name: value.reveal() if isinstance(value, Hidden) else value for name, value in settings.kubernetes.items()
    }
    text = json.dumps([options, context, repr(pace)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
