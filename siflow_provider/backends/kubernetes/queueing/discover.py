"""Reads what a catalog can be drafted from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.resources import (
    CLAIMS,
    CLUSTERQUEUES,
    LOCALQUEUES,
    NODES,
    PODS,
    PRIORITYCLASSES,
    RESOURCEFLAVORS,
    Resource,
)
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.queueing.amounts import add
from siflow_provider.backends.kubernetes.queueing.catalog_draft import Found, draft
from siflow_provider.backends.kubernetes.queueing.machines import machines, trim_node, trim_pod
from siflow_provider.backends.kubernetes.queueing.source import reader_of
from siflow_provider.spec.catalog import load_catalog

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.queueing.picture import Items
    from siflow_provider.backends.kubernetes.queueing.reading import Reader
    from siflow_provider.backends.settings import Settings

__all__ = ["discover_catalog"]


async def discover_catalog(settings: Settings, context: str = "") -> str:
    """Return the text of a catalog drafted from a cluster; it passes `catalog check`.

    Args:
        settings: the connection.
        context: a context of its kubeconfig; "" for the connection's own.

    Raises:
        BackendError: the cluster gave no answer.
    """
    async with open_cluster(settings, context) as cluster:
        read = reader_of(cluster)
        queues, claims, clusters, flavors, priorities, nodes, pods = await asyncio.gather(
            _everywhere(read, LOCALQUEUES, cluster.namespace),
            _everywhere(read, CLAIMS, cluster.namespace),
            read.items(CLUSTERQUEUES),
            read.items(RESOURCEFLAVORS),
            read.items(PRIORITYCLASSES),
            read.items(NODES, trim=trim_node),
            read.items(PODS, trim=_trim_daemon),
        )
    text = draft(
        Found(
            context=context or settings.kubernetes.get("cluster_context") or "",
            local_queues=queues,
            cluster_queues=clusters,
            flavors=flavors,
            priorities=priorities,
            claims=claims,
            machines=None if nodes is None else machines(nodes, None),
            daemons=_daemons(pods or ()),
        )
    )
    load_catalog(text)
    return text


async def _everywhere(read: Reader, resource: Resource, namespace: str) -> Items | None:
    """Return the objects of all namespaces, or of the one that is left where those may not be read."""
    found = await read.items(resource)
    return await read.items(resource, namespace) if found is None else found


def _trim_daemon(pod: dict[str, Any]) -> dict[str, Any]:
    owners = pod["metadata"].get("ownerReferences") or ()
    return trim_pod(pod) if any(owner["kind"] == "DaemonSet" for owner in owners) else {"node": "", "held": {}}


def _daemons(pods: Items) -> Mapping[str, Mapping[str, int]]:
    held: dict[str, dict[str, int]] = {}
    for pod in pods:
        held[pod["node"]] = add(held.get(pod["node"], {}), pod["held"])
    return held
