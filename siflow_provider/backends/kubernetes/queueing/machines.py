"""Nodes as places for pods: what each offers, what is free on it, and which pods it may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from siflow_provider.backends.kubernetes.queueing.amounts import Amounts, add, pod_amounts, read_amounts
from siflow_provider.backends.kubernetes.queueing.matching import has_labels, node_rule_matches, untolerated
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet

__all__ = ["PLAIN", "Machine", "Place", "copies", "fitting", "machines", "pack", "trim_node", "trim_pod", "weight"]

_ENDED = ("Succeeded", "Failed")
PLAIN = ("cpu", "memory", "ephemeral-storage", "pods")
"""What every node has; all else comes and goes with a device plugin."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node.

    Attributes:
        name, labels, taints: its own.
        usable: False while it is cordoned or not ready.
        size: the most that it can offer: broken or restarting accelerators count, since they come back.
        free: what no pod holds now, pods that are still ending among the holders; None when pods can't be read.
        cloud: its `providerID`, or another sign that it was made by something that can make more; "" without one.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    usable: bool
    size: Mapping[str, int]
    free: Mapping[str, int] | None
    cloud: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """What a flavor says about its nodes; without a queue there is one place, which allows every node."""

    labels: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...] = ()


_POOL_LABELS = (
    "karpenter.sh/", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/", "kubernetes.azure.com/agentpool",
    "alibabacloud.com/nodepool", "node.kubernetes.io/instance-type", "cluster.x-k8s.io/", "machine.openshift.io/",
    "volcengine.com/nodepool", "cloud.tencent.com/", "cce.cloud.com/",
)  # fmt: skip
"""Labels and annotations of nodes that a provider made, and may make more of."""


def machines(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]] | None) -> tuple[Machine, ...]:
    """Return the nodes; `pods` as `trim_pod` leaves them, None when they can't be read."""
    held: dict[str, dict[str, int]] = {}
    for pod in pods or ():
        held[pod["node"]] = add(held.get(pod["node"], {}), pod["held"])
    return tuple(_machine(node, None if pods is None else held) for node in nodes)


def _machine(node: Mapping[str, Any], held: Mapping[str, Amounts] | None) -> Machine:
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    offered, capacity = read_amounts(status.get("allocatable")), read_amounts(status.get("capacity"))
    # capacity counts devices that are out of order for a while; of plain resources it holds what the system keeps
    devices = {name: max(offered.get(name, 0), value) for name, value in capacity.items() if name not in PLAIN}
    used = None if held is None else held.get(meta["name"], {})
    free = None if used is None else {name: value - used.get(name, 0) for name, value in offered.items()}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    marks = [key for key in (*labels, *notes) if key.startswith(_POOL_LABELS)]
    ready = {item["type"]: item["status"] for item in status.get("conditions") or ()}.get("Ready")
    return Machine(
        name=meta["name"],
        labels=labels,
        taints=tuple(spec.get("taints") or ()),
        usable=not spec.get("unschedulable") and ready == "True",
        size=offered | devices,
        free=free,
        cloud=spec.get("providerID") or next(iter(marks), ""),
    )


def fitting(
    all_machines: Iterable[Machine], one: PodSet, places: Sequence[Sequence[Place]], *, now: bool
) -> list[Machine]:
    """Return the nodes that the pods of a set may go to.

    Args:
        all_machines: the nodes.
        one: the pod set.
        places: for each resource group that it needs, the flavors that it may have there.
        now: leave out nodes that are cordoned, not ready or tainted, as the scheduler would.
    """
    return [
        machine
        for machine in all_machines
        if node_rule_matches(one.spec, machine.labels, name=machine.name)
        and all(any(_allows(place, machine, one, now=now) for place in group) for group in places)
        and (machine.usable or not now)
    ]


def _allows(place: Place, machine: Machine, one: PodSet, *, now: bool) -> bool:
    if not has_labels(machine.labels, place.labels):
        return False
    if not now:
        return True
    tolerations = (*(one.spec.get("tolerations") or ()), *place.tolerations)
    return untolerated(machine.taints, tolerations) is None


def copies(one: PodSet, room: Amounts) -> int:
    """Return how many pods of a set fit into the room."""
    asked = {"pods": 1, **one.each}
    return max(0, min(room.get(name, 0) // value for name, value in asked.items() if value))


def pack(sets: Sequence[tuple[PodSet, Sequence[Machine]]]) -> dict[str, int]:
    """Return how many pods of each set find room on the nodes that are free now, the largest pods first.

    The scheduler may place them otherwise; this is one way that works, and no proof where it finds none.
    """
    room = {machine.name: dict(machine.free or {}) for _, allowed in sets for machine in allowed}
    placed: dict[str, int] = {}
    for one, allowed in sorted(sets, key=lambda item: weight(item[0]), reverse=True):
        left = one.count
        # the fullest node that still has room first, so that whole nodes stay free for the large ones
        for machine in sorted(allowed, key=lambda each: copies(one, room[each.name])):
            count = min(left, copies(one, room[machine.name]))
            left -= count
            for name, value in {"pods": 1, **one.each}.items():
                room[machine.name][name] = room[machine.name].get(name, 0) - value * count
        placed[one.name] = one.count - left
    return placed


def weight(one: PodSet) -> tuple[int, int, int]:
    """Return how large a pod of the set is: devices first, for they are scarce."""
    devices = sum(value for name, value in one.each.items() if name not in PLAIN)
    return devices, one.each.get("memory", 0), one.each.get("cpu", 0)


def trim_node(node: dict[str, Any]) -> dict[str, Any]:
    """Return the few parts of a node that are needed here: clusters have thousands, with long lists of images."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return {
        "metadata": {name: meta.get(name) or {} for name in ("labels", "annotations")} | {"name": meta["name"]},
        "spec": {name: spec[name] for name in ("taints", "unschedulable", "providerID") if name in spec},
        "status": {name: status.get(name) or {} for name in ("allocatable", "capacity")}
        | {"conditions": [item for item in status.get("conditions") or () if item["type"] == "Ready"]},
    }


def trim_pod(pod: dict[str, Any]) -> dict[str, Any]:
    """Return where a pod is and what it holds there; nothing once it has ended."""
    spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
    ended = phase in _ENDED or not spec.get("nodeName")
    return {"node": spec.get("nodeName", ""), "held": {} if ended else add(pod_amounts(spec), {"pods": 1})}
