"""What a task claims of a ClusterQueue: per pod set and resource group the amounts, and the flavors it may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.queueing.fitting import Choice
from siflow_provider.backends.kubernetes.queueing.machines import Place
from siflow_provider.backends.kubernetes.queueing.matching import node_rule_matches, untolerated
from siflow_provider.backends.kubernetes.queueing.picture import Counting, Picture
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet

__all__ = ["Claims", "claims_of"]

_PODS = "pods"


@dataclass(slots=True)
class Claims:
    """What a task claims of one ClusterQueue.

    Attributes:
        choices: per pod set and resource group.
        refused: pod sets that no flavor of a group takes, each with the reasons.
        uncovered: resources that no group has and that Kueue is known to count.
        doubtful: resources that no group has, or that Kueue counts as others: what they need is not known.
        places: pod set -> for each of its groups, what its flavors say about nodes; None when flavors can't be read.
    """

    choices: list[Choice] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    places: dict[str, list[list[Place]]] | None = field(default_factory=dict)


def claims_of(sets: Sequence[PodSet], cluster_queue: Mapping[str, Any], picture: Picture) -> Claims:
    """Return what the pod sets claim of a ClusterQueue."""
    claims = Claims()
    flavors = None if picture.flavors is None else {item["metadata"]["name"]: item for item in picture.flavors}
    groups = cluster_queue["spec"].get("resourceGroups") or ()
    covered = {name for group in groups for name in group["coveredResources"]}
    known = picture.counting or Counting()
    for name in dict.fromkeys(name for one in sets for name in one.each):
        if name in known.changed:
            claims.doubtful.append(name)
        elif known.counts(name) and name not in covered:
            (claims.uncovered if _is_counted(name, picture) else claims.doubtful).append(name)
    places: dict[str, list[list[Place]]] = {one.name: [] for one in sets}
    for one in sets:
        for group in groups:
            asked = _asked(one, [name for name in group["coveredResources"] if known.counts(name)])
            if asked:
                allowed = _eligible(one, asked, group, flavors, claims)
                places[one.name].append([_place((flavors or {}).get(name)) for name in allowed])
    claims.places = None if flavors is None else places
    return claims


def _is_counted(resource: str, picture: Picture) -> bool:
    """Say whether it is known that Kueue counts a resource, which its configuration does not speak of.

    Where that can't be read, a queue that has quota for the resource shows it.
    """
    return picture.counting is not None or any(
        resource in group["coveredResources"]
        for queue in picture.cluster_queues or ()
        for group in queue["spec"].get("resourceGroups") or ()
    )


def _asked(one: PodSet, covered: Sequence[str]) -> dict[str, int]:
    asked = {name: value for name, value in one.whole.items() if name in covered}
    return asked | ({_PODS: one.count} if _PODS in covered else {})


def _eligible(
    one: PodSet,
    asked: Mapping[str, int],
    group: Mapping[str, Any],
    flavors: Mapping[str, Mapping[str, Any]] | None,
    claims: Claims,
) -> list[str]:
    """Return the flavors of a group that the pod set may have; note a set that may have none."""
    names = [flavor["name"] for flavor in group["flavors"]]
    if flavors is None:
        claims.choices.append(Choice(one.name, asked, tuple(names)))
        return names
    keys = frozenset(key for name in names for key in _spec(flavors.get(name)).get("nodeLabels") or ())
    reasons = {name: _refusal(one, name, _spec(flavors.get(name)), keys) for name in names if name in flavors}
    allowed = [name for name in names if not reasons.get(name)]
    if allowed:
        claims.choices.append(Choice(one.name, asked, tuple(allowed)))
    else:
        claims.refused.append(f"{one.name}: {', '.join(reasons.values())}")
    return allowed


def _refusal(one: PodSet, name: str, spec: Mapping[str, Any], keys: frozenset[str]) -> str:
    """Return why a flavor does not take the pod set; "" when it does."""
    tolerations = (*(one.spec.get("tolerations") or ()), *(spec.get("tolerations") or ()))
    taint = untolerated(spec.get("nodeTaints"), tolerations)
    if taint is not None:
        shown = f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]
        return f"flavor {name!r} has the taint {shown}:{taint['effect']}, which is not tolerated"
    labels = spec.get("nodeLabels") or {}
    if not node_rule_matches(one.spec, labels, keys=keys):
        told = ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"
        return f"flavor {name!r} ({told}) does not match the node selector or affinity ({_rules(one.spec, keys)})"
    return ""


def _rules(spec: Mapping[str, Any], keys: frozenset[str]) -> str:
    return ", ".join(sorted(set(_asked_rules(spec, keys))))


def _asked_rules(spec: Mapping[str, Any], keys: frozenset[str]) -> Iterator[str]:
    for key, value in (spec.get("nodeSelector") or {}).items():
        if key in keys:
            yield f"{key}={value}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for rule in term.get("matchExpressions") or ():
            if rule["key"] in keys:
                yield " ".join([rule["key"], rule["operator"], ",".join(rule.get("values") or ())]).strip()


def _spec(flavor: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (flavor or {}).get("spec") or {}


def _place(flavor: Mapping[str, Any] | None) -> Place:
    spec = _spec(flavor)
    return Place(spec.get("nodeLabels") or {}, tuple(spec.get("tolerations") or ()))
