"""Answers for quota on a live cluster: takes a picture of it and asks the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import yaml

from siflow_provider.backends.kubernetes.cluster.resources import (
    CLUSTERQUEUES,
    COHORTS,
    CONFIGMAPS,
    LOCALQUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEFLAVORS,
    Resource,
)
from siflow_provider.backends.kubernetes.queueing.machines import Machine, machines, trim_node, trim_pod
from siflow_provider.backends.kubernetes.queueing.node_answers import has_node_for
from siflow_provider.backends.kubernetes.queueing.picture import Counting, Items, Picture
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet, task_pod_sets
from siflow_provider.backends.kubernetes.queueing.positions import Positions
from siflow_provider.backends.kubernetes.queueing.reading import Reader
from siflow_provider.backends.kubernetes.queueing.report import answer, places_of
from siflow_provider.backends.kubernetes.queueing.route import find_route

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["positions_of", "quota", "reader_of", "take_picture"]

_RESOURCEQUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
_LIMITRANGES = Resource("", "v1", "limitranges", "LimitRange")
_LIVING = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
_DEFAULT_QUEUE = "default"
"""Kueue gives a job without a queue to the LocalQueue of this name, where the namespace has one."""
_KUEUE_CONFIG = ("kueue-system", "kueue-manager-config")
_NODES_AT_ONCE = 50
_AUTOSCALER_STATUS = ("kube-system", "cluster-autoscaler-status")
_GROWING = ("karpenter.", "autoscaling.x-k8s.io", "cluster.x-k8s.io", "machine.openshift.io")
"""API groups of what adds nodes by itself."""

_readers: WeakKeyDictionary[Cluster, Reader] = WeakKeyDictionary()
_positions: WeakKeyDictionary[Cluster, Positions] = WeakKeyDictionary()


def reader_of(cluster: Cluster) -> Reader:
    """Return the reader that all questions to a cluster share."""
    return _readers.setdefault(cluster, Reader(cluster.api))


def positions_of(cluster: Cluster) -> Positions:
    """Return the places in the queues of a cluster, shared by all tasks that wait there."""
    return _positions.setdefault(cluster, Positions(cluster.api))


async def quota(cluster: Cluster, task: ResolvedTask, *, idle: bool = True, training_api: str = "auto") -> QuotaReport:
    """Return the four answers for the whole task on its first flavor.

    Args:
        cluster: where.
        task: the resolved task.
        idle: False reads no pods where a queue answers, and of the nodes no more than needed to see that no pod is too
            large: each submission asks, and a cluster has thousands of them.
        training_api: the connection's word on what a form of kind PyTorchJob becomes.

    Raises:
        UnsupportedError: the task can't be rendered for Kubernetes.
        BackendUnavailable: no answer now.

    Example:
        report = await quota(cluster, task)
        if report.never: ...
    """
    sets = task_pod_sets(task, (await cluster.features()).training_api(training_api))
    namespace, queue = task.namespace or cluster.namespace, task.flavors[0].queue
    picture = await take_picture(cluster, namespace, queue, idle=idle)
    # thousands of nodes take a while to look through, and the event loop is everybody's
    report = await asyncio.to_thread(answer, picture, sets)
    if picture.nodes_read or report.never or await _has_fitting_nodes(reader_of(cluster), picture, sets):
        return report
    nodes = await _nodes(reader_of(cluster), (await cluster.features()).versions, pods=False)
    return await asyncio.to_thread(answer, replace(picture, **nodes), sets)


async def _has_fitting_nodes(read: Reader, picture: Picture, sets: Sequence[PodSet]) -> bool:
    """Say whether no pod is too large for its nodes, by the first nodes that show it: most tasks are of usual size."""
    places = places_of(picture, sets)
    if places is None:
        return True
    left = list(sets)
    async with aclosing(read.pages(NODES, limit=_NODES_AT_ONCE)) as pages:
        async for page in pages:
            found = machines(page, None)
            left = [one for one in left if not has_node_for(one, places.get(one.name, ()), found)]
            if not left:
                return True
    return False


async def take_picture(cluster: Cluster, namespace: str, queue: str | None, *, idle: bool = True) -> Picture:
    """Read what the answers are made from.

    Args:
        cluster: where.
        namespace: of the task.
        queue: its LocalQueue; None leaves it to Kueue's default, where there is one.
        idle: as for `quota`; without a queue nothing but the nodes can answer.
    """
    read = reader_of(cluster)
    features = await cluster.features()
    by_nodes = idle or queue is None or not features.kueue
    queues, nodes, space = await asyncio.gather(
        _queues(read, namespace) if features.kueue else _no_queues(),
        _nodes(read, features.versions, pods=True) if by_nodes else _no_nodes(),
        _namespace(read, namespace),
    )
    picture = Picture(
        namespace=namespace,
        queue=queue or _default_queue(queues["local_queues"]),
        kueue=features.kueue,
        **queues,
        **nodes,
        **space,
    )
    route = find_route(picture) if picture.queue is not None else None
    if route is None or route.cluster is None or not route.cluster["spec"].get("namespaceSelector"):
        return picture  # none, or one that chooses all, whatever their labels
    return replace(picture, namespace_labels=await _labels(read, namespace))


async def _queues(read: Reader, namespace: str) -> dict[str, Any]:
    local_queues, cluster_queues, flavors, config = await asyncio.gather(
        read.items(LOCALQUEUES, namespace),
        read.items(CLUSTERQUEUES),
        read.items(RESOURCEFLAVORS),
        read.one(CONFIGMAPS, *_KUEUE_CONFIG),
    )
    in_cohorts = any(queue["spec"].get("cohortName") for queue in cluster_queues or ())
    return {
        "local_queues": local_queues,
        "cluster_queues": cluster_queues,
        "flavors": flavors,
        "cohorts": await read.items(COHORTS) if in_cohorts else (),
        "counting": _counting(config),
    }


async def _no_queues() -> dict[str, Any]:
    return {"local_queues": None}


async def _nodes(read: Reader, groups: Mapping[str, object], *, pods: bool) -> dict[str, Any]:
    nodes, living, grows = await asyncio.gather(
        read.items(NODES, trim=trim_node),
        read.items(PODS, trim=trim_pod, selector=_LIVING) if pods else _unread(),
        read.one(CONFIGMAPS, *_AUTOSCALER_STATUS),
    )
    found = None if nodes is None else await read.made(machines, nodes, living)
    return {"nodes_read": True, "machines": found, "static": grows == () and _is_static(found, groups)}


async def _no_nodes() -> dict[str, Any]:
    return {"nodes_read": False}


async def _unread() -> Items | None:
    return None


async def _namespace(read: Reader, namespace: str) -> dict[str, Any]:
    quotas, ranges = await asyncio.gather(read.items(_RESOURCEQUOTAS, namespace), read.items(_LIMITRANGES, namespace))
    return {"resource_quotas": quotas, "limit_ranges": ranges}


async def _labels(read: Reader, namespace: str) -> dict[str, str] | None:
    spaces = await read.one(NAMESPACES, None, namespace)
    return (spaces[0]["metadata"].get("labels") or {}) if spaces else None


def _default_queue(local_queues: Items | None) -> str | None:
    names = {item["metadata"]["name"] for item in local_queues or ()}
    return _DEFAULT_QUEUE if _DEFAULT_QUEUE in names else None


def _counting(config: Items | None) -> Counting | None:
    """Read Kueue's own configuration; None where it can't be read, or is not where Kueue's manifests put it."""
    text = next(iter(((config or ({},))[0].get("data") or {}).values()), None) if config else None
    try:
        found = yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return None
    if not isinstance(found, Mapping):
        return None
    resources: Mapping[str, Any] = found.get("resources") or {}
    return Counting(
        left_out=tuple(resources.get("excludeResourcePrefixes") or ()),
        changed=frozenset(each["input"] for each in resources.get("transformations") or ()),
    )


def _is_static(found: tuple[Machine, ...] | None, groups: Mapping[str, object]) -> bool:
    """Say whether nothing shows that nodes are added by themselves: no provider's marks, no autoscaler's API."""
    if found is None or any(machine.cloud for machine in found):
        return False
    return not any(group.startswith(_GROWING) for group in groups)
