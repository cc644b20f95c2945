"""What the catalog names on a cluster, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.core.checkup import Check
from siflow_provider.spec.scope import Scope
from siflow_provider.spec.wording import listed, nearest

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog, ClusterEntry, GroupEntry, Narrowed, StoredVersion

__all__ = ["Wanted", "compare", "wanted_of"]

Wants = dict[str, list[str]]
"""Name of an object -> where in the catalog it stands."""


@dataclass
class Wanted:
    """What the catalog names in one context.

    Attributes:
        queues, claims: by namespace; "" is the connection's own.
        priorities: of the whole cluster.
    """

    queues: dict[str, Wants] = field(default_factory=dict)
    claims: dict[str, Wants] = field(default_factory=dict)
    priorities: Wants = field(default_factory=dict)


def wanted_of(catalog: Catalog) -> dict[str, Wanted]:
    """Return what a catalog names, by context ("" is the connection's own)."""
    found: dict[str, Wanted] = {}
    for cluster in catalog.clusters or (None,):
        wanted = found.setdefault((cluster.context or "") if cluster else "", Wanted())
        for level, name in catalog.priorities.items():
            _note(wanted.priorities, name, f"priorities.{level}")
        for scope, namespace in _scopes(catalog, cluster):
            _queues(catalog, scope, wanted.queues.setdefault(namespace, {}))
            _claims(catalog, scope, wanted.claims.setdefault(namespace, {}))
    return found


def _scopes(catalog: Catalog, cluster: ClusterEntry | None) -> Iterator[tuple[Scope, str]]:
    """Yield who may ask, and the namespace where their tasks go."""
    open_for = {"user"} if cluster else {"user", "region", "cluster"}
    groups: Mapping[str, GroupEntry | None] = catalog.project_groups or {"": None}
    for group, entry in groups.items():
        scope = Scope(
            region=cluster.region if cluster else None,
            cluster=cluster.cluster if cluster else None,
            project_group=group or None,
            unknown=frozenset(open_for if group else open_for | {"project_group"}),
            entry=cluster,
        )
        yield scope, (entry.namespace if entry else None) or (cluster.namespace if cluster else None) or ""


def _queues(catalog: Catalog, scope: Scope, wants: Wants) -> None:
    for index, entry in enumerate(catalog.queues):
        if scope.admits(entry) is not False:
            _note(wants, entry.queue, f"queues[{index}]")
    if catalog.queue_without_catalog_instance:
        _note(wants, catalog.queue_without_catalog_instance, "default_queue")


def _claims(catalog: Catalog, scope: Scope, wants: Wants) -> None:
    for path, narrowed, stored in _stored(catalog):
        if stored.pvc and scope.admits(narrowed) is not False:
            _note(wants, stored.pvc, path)


def _stored(catalog: Catalog) -> Iterator[tuple[str, Narrowed, StoredVersion]]:
    for name, volume in catalog.volumes.items():
        yield f"volumes.{name}", volume, volume
    for section, entries in (("datasets", catalog.datasets), ("models", catalog.models)):
        for name, data in entries.items():
            yield f"{section}.{name}", data, data
            for version, stored in data.versions.items():
                yield f"{section}.{name}.versions.{version}", data, stored


def _note(wants: Wants, name: str, path: str) -> None:
    paths = wants.setdefault(name, [])
    if path not in paths:
        paths.append(path)


def compare(what: str, place: str, wants: Wants, items: Iterable[Mapping[str, Any]] | None) -> Check:
    """Return whether all that is named is there.

    Args:
        what: the kind of object.
        place: namespace; "" for the whole cluster.
        wants: what the catalog names.
        items: what is there; None when it may not be read.
    """
    name = f"catalog: {what}{f' in {place}' if place else ''}"
    if items is None:
        return Check(name, False, "may not be read, so not compared", "the rights above", needed=False)
    there = {str(item["metadata"]["name"]): item for item in items}
    missing = [_missing(what, each, paths, there) for each, paths in wants.items() if each not in there]
    if missing:
        mend = f"create the {what}, or correct the catalog; there are: {listed(sorted(there))}"
        return Check(name, False, "; ".join(missing), mend)
    trouble = [text for each in wants if (text := _trouble(what, there[each]))]
    if trouble:
        return Check(name, False, "; ".join(trouble), "tell whoever looks after the cluster", needed=False)
    return Check(name, True, f"all there: {', '.join(wants)}")


def _missing(what: str, name: str, paths: Iterable[str], there: Iterable[str]) -> str:
    near = nearest(name, there)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"no {what} {name!r}, which is named at {', '.join(paths)}{hint}"


def _trouble(what: str, item: Mapping[str, Any]) -> str:
    """Say what is wrong with an object that is there: a queue that takes nothing, a claim without a volume."""
    status, name = item.get("status") or {}, item["metadata"]["name"]
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return f"{what} {name!r} takes no jobs now: {condition.get('message') or condition.get('reason')}"
    if status.get("phase") == "Lost":
        return f"{what} {name!r} has lost its volume"
    return ""
