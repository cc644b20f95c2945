"""Taints and tolerations, labels and selectors, as Kubernetes compares them.

source: Kubernetes v1.36 component-helpers/scheduling/corev1 (FindMatchingUntoleratedTaint, nodeaffinity); Kueue v0.17.0
pkg/scheduler/flavorassigner/flavorassigner.go, flavorSelector
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["has_labels", "node_rule_matches", "selector_matches", "untolerated"]

_HARD = ("NoSchedule", "NoExecute")
_NAME_FIELD = "metadata.name"


def untolerated(
    taints: Iterable[Mapping[str, Any]] | None, tolerations: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first taint that keeps a pod off and that none of its tolerations allows."""
    allowed = tuple(tolerations)
    for taint in taints or ():
        if taint.get("effect") in _HARD and not any(_tolerates(one, taint) for one in allowed):
            return taint
    return None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")
    # Exists; and the comparisons of newer clusters, of which it is not known here whether this one has them on
    return True


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    """Say whether all of `wanted` stand in `labels`."""
    return all(labels.get(key) == value for key, value in (wanted or {}).items())


def node_rule_matches(
    spec: Mapping[str, Any], labels: Mapping[str, str], *, keys: frozenset[str] | None = None, name: str | None = None
) -> bool:
    """Say whether a pod's node selector and required affinity allow a node with these labels.

    Args:
        spec: the pod's spec.
        labels: of the node, or of a flavor.
        keys: compare these labels only, as Kueue does for a flavor; None = all.
        name: of the node; None where there is none, and rules on names then allow it.
    """
    selector = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if keys is None or key in keys}
    if not has_labels(labels, selector):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term(term, labels, keys, name) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], labels: Mapping[str, str], keys: frozenset[str] | None, name: str | None) -> bool:
    rules = [rule for rule in term.get("matchExpressions") or () if keys is None or rule["key"] in keys]
    fields = () if name is None else term.get("matchFields") or ()
    if keys is not None and not rules:
        return True  # a term without a label of the flavors' allows each of them
    return all(_rule(rule, labels) for rule in rules) and all(
        _rule({**rule, "key": _NAME_FIELD}, {_NAME_FIELD: name or ""}) for rule in fields
    )


def selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Say whether a label selector selects these labels; an absent one selects nothing, an empty one everything."""
    if selector is None:
        return False
    return has_labels(labels, selector.get("matchLabels")) and all(
        _rule(rule, labels) for rule in selector.get("matchExpressions") or ()
    )


def _rule(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(rule["operator"], value, values)
    return True  # an operator that is not known here proves nothing


def _compares(operator: str, value: str | None, values: Iterable[str]) -> bool:
    try:
        left, right = int(value or ""), int(next(iter(values)))
    except (ValueError, StopIteration):
        return False
    return left > right if operator == "Gt" else left < right
