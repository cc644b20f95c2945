"""Instances drafted from flavors and the nodes that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from siflow_provider.backends.kubernetes.queueing.machines import Machine
from siflow_provider.backends.kubernetes.queueing.matching import has_labels, untolerated
from siflow_provider.backends.kubernetes.queueing.picture import Items
from siflow_provider.spec.quantity import accelerators, format_quantity

__all__ = ["InstanceDraft", "flavor_instances"]

_CORE = 1000
_GIB = 2**30


@dataclass(slots=True)
class InstanceDraft:
    """The instances of one flavor.

    Attributes:
        flavor: its name.
        type: the resource type that its nodes speak for.
        entries: instance -> catalog entry.
        notes: what is not known.
    """

    flavor: str
    type: str = "on_demand"
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def flavor_instances(
    flavors: Items | None,
    cluster_queues: Items | None,
    machines: Sequence[Machine] | None,
    daemons: Mapping[str, Mapping[str, int]],
) -> list[InstanceDraft]:
    """Return the instances of each flavor that some ClusterQueue uses (of every flavor where that is not known)."""
    if flavors is None:
        return [InstanceDraft("", notes=["instances: the ResourceFlavors can't be read."])]
    used = {
        flavor["name"]
        for queue in cluster_queues or ()
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
    }
    chosen = [item for item in flavors if cluster_queues is None or item["metadata"]["name"] in used]
    return [_draft(item, machines, daemons) for item in sorted(chosen, key=lambda each: str(each["metadata"]["name"]))]


def _draft(
    flavor: Mapping[str, Any], machines: Sequence[Machine] | None, daemons: Mapping[str, Mapping[str, int]]
) -> InstanceDraft:
    name, spec = str(flavor["metadata"]["name"]), flavor.get("spec") or {}
    labels = spec.get("nodeLabels") or {}
    found = InstanceDraft(name, "spot" if _is_spot(labels) else "on_demand")
    nodes = [machine for machine in machines or () if has_labels(machine.labels, labels)]
    if not nodes:
        why = "the nodes can't be read" if machines is None else "there is no node with its labels now"
        found.notes.append(f"instances: the size of the flavor {name!r} is not known: {why}.")
        return found
    place: dict[str, Any] = {"node_selector": dict(labels)} if labels else {}
    tolerations = _tolerations(spec, nodes)
    if tolerations:
        place["tolerations"] = tolerations
    size = _smallest(nodes, daemons)
    devices = accelerators(size)
    found.entries[name] = {"resources": _resources(size, 1), **place}
    if devices and size[devices[0]] > 1:
        found.entries[f"{name}-1"] = {"resources": _resources(size, size[devices[0]]), **place}
    if len({tuple(sorted(_offer(node, {}).items())) for node in nodes}) > 1:
        found.notes.append(f"instances: the nodes of the flavor {name!r} differ in size; the smallest are drafted.")
    return found


def _is_spot(labels: Mapping[str, str]) -> bool:
    return any(value.lower() == "spot" or ("spot" in key and value == "true") for key, value in labels.items())


def _tolerations(spec: Mapping[str, Any], nodes: Iterable[Machine]) -> list[dict[str, str]]:
    """Return what tasks must tolerate beyond what the flavor gives them by itself."""
    given = list(spec.get("tolerations") or ())
    wanted: list[dict[str, str]] = []
    for taints in (spec.get("nodeTaints") or (), *(node.taints for node in nodes if node.usable)):
        while (taint := untolerated(taints, [*given, *wanted])) is not None:
            wanted.append({"key": taint["key"], "operator": "Exists", "effect": taint["effect"]})
    return wanted


def _offer(node: Machine, held: Mapping[str, int]) -> dict[str, int]:
    names = ["cpu", "memory", *accelerators(node.size)]
    return {name: node.size.get(name, 0) - held.get(name, 0) for name in names if node.size.get(name, 0)}


def _smallest(nodes: Sequence[Machine], daemons: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return what every node of a flavor has left beside its DaemonSets; devices that only some have count too."""
    offers = [_offer(node, daemons.get(node.name, {})) for node in nodes]
    names = dict.fromkeys(name for offer in offers for name in offer)
    return {name: min(offer[name] for offer in offers if name in offer) for name in names}


def _resources(size: Mapping[str, int], share: int) -> dict[str, int | str]:
    """Return a share of a node in whole cores and whole GiB where they are at least one."""
    out: dict[str, int | str] = {}
    for name, value in size.items():
        part = value // share
        if name == "cpu":
            out[name] = part // _CORE if part >= _CORE else f"{part}m"
        elif name == "memory":
            out[name] = format_quantity(Decimal(part // _GIB * _GIB if part >= _GIB else part))
        else:
            out[name] = part
    return out
