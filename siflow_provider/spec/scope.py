"""Who asks and from where: region, cluster, project group and user, which narrow what a catalog offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from siflow_provider.errors import Problem
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.wording import listed, suggest

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog, ClusterEntry, Narrowed
    from siflow_provider.spec.resolve import Defaults
    from siflow_provider.spec.task import Task

__all__ = ["Findings", "Scope", "scope_of"]

_PLACE = {"region", "cluster"}
Entry = TypeVar("Entry", bound="Narrowed")
Dimension = Literal["region", "cluster", "project_group", "user"]
_LISTS: dict[Dimension, str] = {
    "region": "regions",
    "cluster": "clusters",
    "project_group": "project_groups",
    "user": "users",
}


@dataclass(slots=True)
class Findings:
    """What looking names up brought to light.

    Attributes:
        final: True when the task is rendered and the connection is known: what is missing now will stay missing.
    """

    final: bool
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def wrong(self, path: str, message: str) -> None:
        """Note an error."""
        self.errors.append(Problem(path, message))

    def doubtful(self, path: str, message: str) -> None:
        """Note a warning."""
        self.warnings.append(Problem(path, message))


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a task runs and for whom. What is in `unknown` is decided later (a template, the connection).

    Attributes:
        region, cluster, project_group, user: None when there is none.
        unknown: the dimensions about which nothing can be said yet.
        entry: the catalog's cluster.
    """

    region: str | None = None
    cluster: str | None = None
    project_group: str | None = None
    user: str | None = None
    unknown: frozenset[str] = frozenset()
    entry: ClusterEntry | None = None

    def admits(self, entry: Narrowed) -> bool | None:
        """Say whether an entry of the catalog may be used from here; None when that is not known yet."""
        maybe = False
        for dimension, name in _LISTS.items():
            allowed = getattr(entry, name)
            if not allowed:
                continue
            if dimension in self.unknown:
                maybe = True
            elif getattr(self, dimension) not in allowed:
                return False
        return None if maybe else True

    def why_not(self, entry: Narrowed) -> str:
        """Return the narrowing that shuts this scope out, in words."""
        for dimension, name in _LISTS.items():
            allowed, mine = getattr(entry, name), getattr(self, dimension)
            if allowed and dimension not in self.unknown and mine not in allowed:
                here = f"{dimension} {mine!r}" if mine else f"a task without {dimension}"
                return f"is not for {here}; only for {name}: {listed(allowed)}"
        return "can't be used here"

    def find(self, name: str, entries: Mapping[str, Entry], what: str, path: str, findings: Findings) -> Entry | None:
        """Return the entry of a name; where there is none, or it may not be used from here, `findings` say so."""
        entry = entries.get(name)
        if entry is None:
            usable = [key for key, one in entries.items() if self.admits(one) is not False]
            hint = suggest(name, usable, what=f"{what}s")
            findings.wrong(path, f"{name!r} is no {what} of the catalog; {hint}")
        elif self.admits(entry) is False:
            findings.wrong(path, f"{name!r} {self.why_not(entry)}")
            return None
        return entry


def scope_of(task: Task, catalog: Catalog | None, defaults: Defaults, user: str, findings: Findings) -> Scope:
    """Return where the task runs, defaults applied (catalog before connection); wrong names go to `findings`."""
    own: dict[str, Any] = {name: getattr(task, name) for name in ("region", "cluster", "project_group")}
    unknown = {name for name, value in own.items() if value is not None and is_unknown(value)}
    given = {name: None if name in unknown else value for name, value in own.items()}
    fallback = {name: _default(name, catalog, defaults) for name in own}
    group = given["project_group"] or (None if "project_group" in unknown else fallback["project_group"])
    region, cluster, entry = _place(given, fallback, unknown, catalog, findings)
    if catalog is not None and catalog.project_groups and group is not None and group not in catalog.project_groups:
        hint = suggest(group, catalog.project_groups, what="project groups")
        findings.wrong("project_group", f"{group!r} is no project group of the catalog; {hint}")
        unknown.add("project_group")
    if not findings.final:
        found = {"region": region, "cluster": cluster, "project_group": group, "user": user or None}
        unknown |= {name for name, value in found.items() if value is None}
    return Scope(region, cluster, group, user or None, frozenset(unknown), entry)


def _default(name: str, catalog: Catalog | None, defaults: Defaults) -> str | None:
    stronger = getattr(catalog.defaults, name) if catalog is not None else None
    weaker: str | None = getattr(defaults, name)
    return stronger or weaker


def _place(
    given: dict[str, Any],
    fallback: dict[str, str | None],
    unknown: set[str],
    catalog: Catalog | None,
    findings: Findings,
) -> tuple[str | None, str | None, ClusterEntry | None]:
    """Return region, cluster and its entry; what is wrong joins `unknown`, so that nothing is narrowed by it."""
    region, cluster = given["region"], given["cluster"]
    clusters = catalog.clusters if catalog is not None else ()
    if not unknown & _PLACE and (not clusters or (region is None and cluster is None)):
        region, cluster = region or fallback["region"], cluster or fallback["cluster"]
    if not clusters:
        return region, cluster, None
    if not _known("region", region, (one.region for one in clusters), findings):
        unknown.add("region")
    if not _known("cluster", cluster, (one.cluster for one in clusters), findings):
        unknown.add("cluster")
    if unknown & _PLACE:
        unknown |= {name for name, value in (("region", region), ("cluster", cluster)) if value is None}
        return region, cluster, None
    fits = [one for one in clusters if region in (None, one.region) and cluster in (None, one.cluster)]
    if not fits:
        at_home = [one.cluster for one in clusters if one.region == region]
        hint = suggest(cluster, at_home, what="its clusters")
        findings.wrong("cluster", f"{cluster!r} is not in the region {region!r}; {hint}")
        unknown |= _PLACE
        return region, cluster, None
    return _chosen(fits, region, cluster, fallback, findings)


def _known(what: str, name: str | None, names: Iterable[str], findings: Findings) -> bool:
    known = list(dict.fromkeys(names))
    if name is None or name in known:
        return True
    findings.wrong(what, f"{name!r} is no {what} of the catalog; {suggest(name, known, what=f'{what}s')}")
    return False


def _chosen(
    fits: list[ClusterEntry],
    region: str | None,
    cluster: str | None,
    fallback: dict[str, str | None],
    findings: Findings,
) -> tuple[str | None, str | None, ClusterEntry | None]:
    if len(fits) > 1 and (region or cluster):
        by_default = [one for one in fits if fallback["region"] in (None, one.region)]
        by_default = [one for one in by_default if fallback["cluster"] in (None, one.cluster)]
        fits = by_default if len(by_default) == 1 else fits
    if len(fits) == 1:
        return fits[0].region, fits[0].cluster, fits[0]
    if findings.final and region is not None and cluster is None:
        findings.wrong("cluster", f"is required: the region {region!r} has {listed(one.cluster for one in fits)}")
    elif findings.final and cluster is not None:
        findings.wrong("region", f"is required: a cluster {cluster!r} is in {listed(one.region for one in fits)}")
    return region, cluster, None
