"""What the login may do: each right is asked for, verb by verb, in each namespace where tasks go.

source: Kubernetes v1.36 authorization/v1 SelfSubjectAccessReview; every login may ask by the role `system:basic-user`
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.checkup.rules import Reach, Rule
from siflow_provider.backends.kubernetes.cluster.resources import Resource
from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.core.checkup import Check

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["Missing", "ask_rights", "rights_checks"]

_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_ROLE_NAME = "siflow-provider"
Missing = Mapping[Rule, Mapping[str, tuple[str, ...]]]
"""Rule -> namespace ("" for the whole cluster) -> the verbs that are not allowed there."""


async def ask_rights(api: Api, rules: Sequence[Rule], namespaces: Sequence[str]) -> Missing:
    """Return what of each rule is missing where; the client bounds how many questions are under way.

    Raises:
        BackendError: the API server does not say.
    """
    asked = [
        (rule, place, verb, name)
        for rule in rules
        for place in _places(rule, namespaces)
        for verb in rule.verbs
        for name in rule.names or ("",)
    ]
    allowed = await asyncio.gather(*(_may(api, *question) for question in asked))
    missing: dict[Rule, dict[str, tuple[str, ...]]] = {rule: {} for rule in rules}
    for (rule, place, verb, _), yes in zip(asked, allowed, strict=True):
        if not yes:
            missing[rule][place] = tuple(dict.fromkeys((*missing[rule].get(place, ()), verb)))
    return missing


def rights_checks(missing: Missing) -> list[Check]:
    """Return one check a rule, with the YAML to add where something is missing."""
    return [_check(rule, places) for rule, places in missing.items()]


def _places(rule: Rule, namespaces: Sequence[str]) -> Sequence[str]:
    if rule.reach is Reach.TASKS:
        return namespaces
    return ("",) if rule.reach is Reach.CLUSTER else (rule.reach.value,)


async def _may(api: Api, rule: Rule, namespace: str, verb: str, name: str) -> bool:
    resource, _, part = rule.resource.partition("/")
    question = {"group": rule.group, "resource": resource, "subresource": part, "verb": verb, "namespace": namespace}
    if rule.resource == "namespaces":
        name = namespace
    body = {
        "apiVersion": _REVIEWS.api_version,
        "kind": _REVIEWS.kind,
        "spec": {"resourceAttributes": {**question, "name": name}},
    }
    answer = await api.create(_REVIEWS.path(), body)
    return bool((answer.get("status") or {}).get("allowed"))


def _check(rule: Rule, missing: Mapping[str, tuple[str, ...]]) -> Check:
    where = {Reach.TASKS: "", Reach.CLUSTER: " of all namespaces" if rule.resource == "pods" else ""}
    name = f"right: {rule.resource}{where.get(rule.reach, f' in {rule.reach}')}"
    if not missing:
        return Check(name, True, f"{', '.join(rule.verbs)}: {rule.use}", needed=rule.needed)
    told = "; ".join(f"may not {', '.join(verbs)}{f' in {place}' if place else ''}" for place, verbs in missing.items())
    lost = f", so {rule.lost}" if rule.lost else f", which every task needs for {rule.use}"
    return Check(name, False, f"{told}{lost}", _mend(rule, missing), rule.needed)


def _mend(rule: Rule, missing: Mapping[str, tuple[str, ...]]) -> str:
    by_verbs: dict[tuple[str, ...], list[str]] = {}
    for place, verbs in missing.items():
        by_verbs.setdefault(verbs, []).append(place)
    return "; ".join(
        f"add to the rules of {_role(places)}: {rule_text(rule.group, rule.resource, verbs, rule.names)}"
        for verbs, places in by_verbs.items()
    )


def _role(places: Sequence[str]) -> str:
    if places == [""]:
        return f"the ClusterRole {_ROLE_NAME}"
    return f"the Role {_ROLE_NAME} in {', '.join(places)}"
