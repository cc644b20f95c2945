"""The way of a task: its LocalQueue, the ClusterQueue behind it, and what stands in the way there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from siflow_provider.backends.kubernetes.queueing.matching import selector_matches
from siflow_provider.backends.kubernetes.queueing.picture import Picture
from siflow_provider.spec.wording import suggest

__all__ = ["Route", "find_route"]

_POLICIES = {"Hold": "on hold", "HoldAndDrain": "on hold and being drained"}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a task queues.

    Attributes:
        local, cluster: the objects; None when they are missing or can't be read.
        barred: why nothing of this task is ever admitted there; "" when nothing speaks against it.
        closed: why nothing is admitted there at present; it ends without the task.
        blind: what can't be read, so that nothing is known.
    """

    local: Mapping[str, Any] | None = None
    cluster: Mapping[str, Any] | None = None
    barred: str = ""
    closed: str = ""
    blind: str = ""


def find_route(picture: Picture) -> Route:
    """Return the way of a task that has a queue."""
    if picture.local_queues is None:
        return Route(blind=f"the LocalQueues of the namespace {picture.namespace!r} can't be read")
    local = _named(picture.local_queues, picture.queue)
    if local is None:
        return Route(barred=_no_queue(picture))
    name = local["spec"]["clusterQueue"]
    if picture.cluster_queues is None:
        closed = _held("LocalQueue", local) or _inactive("LocalQueue", local)
        return Route(local, None, closed=closed, blind=f"the ClusterQueue {name!r} can't be read")
    cluster = _named(picture.cluster_queues, name)
    if cluster is None:
        text = f"the LocalQueue {picture.queue!r} leads to the ClusterQueue {name!r}, which does not exist"
        return Route(local, None, closed=text, blind=text)
    return Route(local, cluster, barred=_barred(picture, cluster), closed=_closed(local, cluster))


def _named(items: tuple[Mapping[str, Any], ...], name: str | None) -> Mapping[str, Any] | None:
    return next((item for item in items if item["metadata"]["name"] == name), None)


def _no_queue(picture: Picture) -> str:
    names = [item["metadata"]["name"] for item in picture.local_queues or ()]
    hint = suggest(picture.queue or "", names, what="queues") if names else "it has none at all"
    return f"there is no LocalQueue {picture.queue!r} in the namespace {picture.namespace!r}; {hint}"


def _barred(picture: Picture, cluster: Mapping[str, Any]) -> str:
    selector = cluster["spec"].get("namespaceSelector")
    labels = picture.namespace_labels
    name = cluster["metadata"]["name"]
    if selector is None:
        return f"the ClusterQueue {name!r} has no namespaceSelector, so it takes tasks of no namespace"
    if labels is not None and not selector_matches(selector, labels):
        return f"the namespaceSelector of the ClusterQueue {name!r} leaves out the namespace {picture.namespace!r}"
    return ""


def _closed(local: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    return (
        _held("LocalQueue", local)
        or _held("ClusterQueue", cluster)
        or _inactive("ClusterQueue", cluster)
        or _inactive("LocalQueue", local)
    )


def _held(kind: str, queue: Mapping[str, Any]) -> str:
    policy = queue["spec"].get("stopPolicy")
    if policy not in _POLICIES:
        return ""
    return f"the {kind} {queue['metadata']['name']!r} is {_POLICIES[policy]}: tasks wait until an admin opens it"


def _inactive(kind: str, queue: Mapping[str, Any]) -> str:
    for condition in (queue.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Active" and condition["status"] == "False":
            told = condition.get("message") or condition.get("reason") or ""
            return f"the {kind} {queue['metadata']['name']!r} is not active: {told.rstrip('.')}"
    return ""
