"""Answers from the namespace: its ResourceQuotas, which refuse pods beyond them, and its LimitRanges.

source: Kubernetes v1.36 pkg/quota/v1/evaluator/core/pods.go; plugin/pkg/admission/limitranger
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from siflow_provider.backends.kubernetes.queueing.amounts import add, pod_amounts, read_amounts, shortage, times
from siflow_provider.backends.kubernetes.queueing.machines import PLAIN
from siflow_provider.backends.kubernetes.queueing.picture import Items, Picture, no, unknown, worst, yes
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet, total
from siflow_provider.core.quota import Answer

__all__ = ["quota_ever", "quota_left", "range_ever"]


def quota_left(picture: Picture, sets: Sequence[PodSet]) -> Answer:
    """Say whether the whole task fits into what the namespace's quotas leave."""
    return _judge(picture, sets, used=True)


def quota_ever(picture: Picture, sets: Sequence[PodSet]) -> Answer:
    """Say whether the whole task fits into the namespace's quotas when nothing else runs there."""
    return _judge(picture, sets, used=False)


def _judge(picture: Picture, sets: Sequence[PodSet], *, used: bool) -> Answer:
    if picture.resource_quotas is None:
        return unknown(f"the ResourceQuotas of the namespace {picture.namespace!r} can't be read")
    applying = [quota for quota in picture.resource_quotas if not _has_scope(quota)]
    if not applying:
        return yes(f"no ResourceQuota limits the namespace {picture.namespace!r}")
    return worst(*(_against(quota, sets, used=used) for quota in applying))


def _has_scope(quota: Mapping[str, Any]) -> bool:
    """Say whether a quota is for some pods only; which, is not looked at here."""
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def _against(quota: Mapping[str, Any], sets: Sequence[PodSet], *, used: bool) -> Answer:
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard = (quota.get("spec") or {}).get("hard") or {}
    held = status.get("used") or {} if used else {}
    short = []
    for key, resource, need in _needs(sets):
        if key in hard:
            have = _amount(resource, hard[key]) - _amount(resource, held.get(key, 0))
            if need > have:
                short.append(shortage(key, need, have, f"the ResourceQuota {name!r}"))
    what = "leaves no room for the whole task" if used else "is smaller than the whole task"
    return no(f"the ResourceQuota {name!r} {what}", *short) if short else yes(f"the ResourceQuota {name!r} has room")


def _amount(resource: str, quantity: str | float) -> int:
    return read_amounts({resource: quantity})[resource]


def _needs(sets: Sequence[PodSet]) -> Iterator[tuple[str, str, int]]:
    """Yield what a quota may count: its key, the resource and the amount of the whole task."""
    for resource, need in total(sets).items():
        yield f"requests.{resource}", resource, need
        if resource in PLAIN:
            yield resource, resource, need
    for resource, need in add(*(times(one.limits, one.count) for one in sets)).items():
        yield f"limits.{resource}", resource, need
    yield "pods", "pods", sum(one.count for one in sets)


def range_ever(picture: Picture, sets: Sequence[PodSet]) -> Answer:
    """Say whether a pod of the task is larger than the namespace allows one to be."""
    found = [wrong for one in sets for wrong in _beyond(picture.limit_ranges or (), one)]
    return worst(*found) if found else yes("")


def _beyond(ranges: Items, one: PodSet) -> Iterator[Answer]:
    containers = [*(one.spec.get("initContainers") or ()), *(one.spec.get("containers") or ())]
    for limit_range in ranges:
        name = limit_range["metadata"]["name"]
        for limit in limit_range["spec"].get("limits") or ():
            most = read_amounts(limit.get("max"))
            for each in _sizes(limit["type"], one, containers):
                short = [
                    shortage(key, each[key], most[key], f"the LimitRange {name!r} for a {limit['type'].lower()}")
                    for key in most
                    if each.get(key, 0) > most[key]
                ]
                if short:
                    yield no(f"{one.name} is larger than the namespace allows", *short)


def _sizes(kind: str, one: PodSet, containers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, int]]:
    """Return the amounts that a limit of this kind looks at."""
    if kind == "Container":
        return [pod_amounts({"containers": [container]}) for container in containers]
    return [one.each] if kind == "Pod" else []
