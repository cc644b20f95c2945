"""Kueue's objects in few words, for tables of quota and for real clusters alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from siflow_provider.backends.kubernetes.queueing.machines import trim_pod
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet

API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "gpu", "operator": "Exists"}


def flavor(name: str, labels: Mapping[str, str] | None = None, *taints: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeLabels": dict(labels)} if labels else {}
    if taints:
        spec["nodeTaints"] = [dict(taint) for taint in taints]
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def quota(nominal: str | int, borrow: str | int | None = None, lend: str | int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"nominalQuota": str(nominal)}
    if borrow is not None:
        found["borrowingLimit"] = str(borrow)
    if lend is not None:
        found["lendingLimit"] = str(lend)
    return found


def group(**flavors: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a resource group: flavor -> resource -> quota; `_` in a flavor's name stands for `-`."""
    covered = list(next(iter(flavors.values())))
    return {
        "coveredResources": covered,
        "flavors": [
            {
                "name": name.replace("_", "-"),
                "resources": [{"name": resource, **amounts} for resource, amounts in resources.items()],
            }
            for name, resources in flavors.items()
        ],
    }


def cluster_queue(name: str, *groups: Mapping[str, Any], used: Any = None, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue; `used` is flavor -> resource -> reserved amount."""
    reserved = [
        {"name": flavor, "resources": [{"name": each, "total": str(amount)} for each, amount in amounts.items()]}
        for flavor, amounts in (used or {}).items()
    ]
    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": list(groups), **spec},
        "status": {"flavorsReservation": reserved},
    }


def cohort(name: str, *groups: Mapping[str, Any], parent: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceGroups": list(groups)} if groups else {}
    if parent is not None:
        spec["parentName"] = parent
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def local_queue(name: str, cluster: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": cluster, **spec},
    }


def inactive(queue: dict[str, Any], message: str) -> dict[str, Any]:
    condition = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": message}
    return {**queue, "status": {**queue.get("status", {}), "conditions": [condition]}}


def pods(
    name: str,
    count: int,
    requests: Mapping[str, str | int],
    *,
    tolerations: Sequence[Mapping[str, Any]] = (),
    selector: Mapping[str, str] | None = None,
    affinity: Any = None,
) -> PodSet:
    amounts = {resource: str(value) for resource, value in requests.items()}
    container = {"name": "main", "image": "registry.example/a:1", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if tolerations:
        spec["tolerations"] = [dict(each) for each in tolerations]
    if selector:
        spec["nodeSelector"] = dict(selector)
    if affinity:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}}
    return PodSet.of(name, count, {"spec": spec})


def node(
    name: str, offered: Mapping[str, str | int], labels: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    amounts = {"pods": "110", **{resource: str(value) for resource, value in offered.items()}}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_on(node_name: str, requests: Mapping[str, str | int], **status: Any) -> dict[str, Any]:
    spec = dict(pods("any", 1, requests).spec)
    return trim_pod({"spec": {**spec, "nodeName": node_name}, "status": {"phase": "Running", **status}})
