"""Answers from the nodes: what fits now, node by node, and what is larger than every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from siflow_provider.backends.kubernetes.queueing.amounts import shortage, shown
from siflow_provider.backends.kubernetes.queueing.machines import PLAIN, Machine, Place, copies, fitting, pack, weight
from siflow_provider.backends.kubernetes.queueing.picture import no, unknown, worst, yes
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet
from siflow_provider.core.quota import Answer, Shortage

__all__ = ["Places", "free_answer", "has_node_for", "size_answer"]

Places = Mapping[str, Sequence[Sequence[Place]]]
"""Pod set -> for each resource group, the flavors that it may have there; {} where flavors say nothing."""

_NAMED_NODES = 5


def free_answer(sets: Sequence[PodSet], places: Places, machines: Sequence[Machine] | None) -> Answer:
    """Say whether all pods find room on what is free now, and how many of the largest do."""
    if machines is None:
        return unknown("the nodes can't be read")
    if any(machine.free is None for machine in machines):
        return unknown("the pods of all namespaces can't be read, so it is not known what is free on the nodes")
    allowed = [(one, fitting(machines, one, places.get(one.name, ()), now=True)) for one in sets]
    placed = pack(allowed)
    largest, nodes = max(allowed, key=lambda item: weight(item[0]))
    text = _fragments(largest, nodes)
    short = [
        Shortage("replicas", one.count, placed[one.name], one.name, "what is free on the nodes")
        for one in sets
        if placed[one.name] < one.count
    ]
    if not short:
        return yes(f"{text}; there is room for the whole task on the nodes")
    return no(f"{text}; the whole task finds no room on the nodes", *short)


def _fragments(one: PodSet, nodes: Sequence[Machine]) -> str:
    """Return how many pods of a set fit node by node."""
    fits = {machine.name: copies(one, machine.free or {}) for machine in nodes}
    best = sorted((name for name, count in fits.items() if count), key=lambda name: -fits[name])
    named = ", ".join(f"{name} {fits[name]}" for name in best[:_NAMED_NODES])
    more = f", {len(best) - _NAMED_NODES} more nodes" if len(best) > _NAMED_NODES else ""
    where = f" ({named}{more})" if best else f" of {len(nodes)} nodes" if nodes else ": no usable node takes it"
    count = sum(fits.values())
    replicas, fit = ("replica", "fits") if count == 1 else ("replicas", "fit")
    return f"{count} {replicas} of this size ({shown(one.each)}) {fit} node by node{where}"


def size_answer(
    sets: Sequence[PodSet], places: Places | None, machines: Sequence[Machine] | None, *, static: bool
) -> Answer:
    """Say whether a single pod is larger than every node that it may go to.

    That is a proof only where nodes of its flavor exist and nothing adds others; else it is a doubt.
    """
    if machines is None or places is None:
        return yes("")
    return worst(*(_size_of(one, places.get(one.name, ()), machines, static=static) for one in sets))


def has_node_for(one: PodSet, places: Sequence[Sequence[Place]], machines: Sequence[Machine]) -> bool:
    """Say whether one of these nodes is large enough for a pod of the set, which may go there."""
    return any(not _lack(one, machine.size) for machine in fitting(machines, one, places, now=False))


def _size_of(one: PodSet, places: Sequence[Sequence[Place]], machines: Sequence[Machine], *, static: bool) -> Answer:
    if has_node_for(one, places, machines):
        return yes("")
    nodes = fitting(machines, one, places, now=False)
    lacks = [_lack(one, machine.size) for machine in nodes]
    if not nodes:
        return unknown(f"no node that there is now matches what {one.name} asks for")
    name = min(lacks, key=len)[0]
    have = max(machine.size.get(name, 0) for machine in nodes)
    text = f"one {one.name} ({shown(one.each)}) is larger than each of the {len(nodes)} nodes that it may go to"
    if not static:
        return unknown(f"{text}; whether larger ones may be added is not known")
    if not all(_is_proof(lack, node) for lack, node in zip(lacks, nodes, strict=True)):
        return unknown(f"{text}; some of them offer no {name} at all, which may be for a while only")
    return no(text, shortage(name, one.each[name], have, "the largest of its nodes"))


def _is_proof(lack: Sequence[str], machine: Machine) -> bool:
    """Say whether a node is too small for good: one without any device may have a driver that is not yet up."""
    return any(name in PLAIN or machine.size.get(name, 0) for name in lack)


def _lack(one: PodSet, size: Mapping[str, int]) -> list[str]:
    return [name for name, value in one.each.items() if value > size.get(name, 0)]
