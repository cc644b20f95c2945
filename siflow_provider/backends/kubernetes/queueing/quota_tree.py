"""How much a ClusterQueue may have at most and could take now: its own quota, its cohort's, limits on both ways.

A cohort is a tree: ClusterQueues and cohorts hang on cohorts. What a member does not keep for itself (its lending
limit) counts for the cohort; what it takes beyond its own is borrowed (its borrowing limit).

source: Kueue v0.17.0 pkg/cache/scheduler/resource_node.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.queueing.amounts import read_amount

__all__ = ["CohortCycle", "Quota", "QuotaTree"]

Key = tuple[str, str]
"""Flavor and resource."""
_Id = tuple[str, str]


class CohortCycle(ValueError):
    """Cohorts that are each other's parents: Kueue admits nothing there until an admin mends it."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What one member of the tree has of one resource in one flavor; None = no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(slots=True)
class _Member:
    parent: _Id | None = None
    quotas: dict[Key, Quota] = field(default_factory=dict)
    used: dict[Key, int] = field(default_factory=dict)
    children: list[_Id] = field(default_factory=list)


class QuotaTree:
    """All ClusterQueues and cohorts of a cluster.

    Args:
        cluster_queues: the objects.
        cohorts: the objects; a cohort that is only named has no quota of its own and no parent.

    Raises:
        CohortCycle: by every question about a queue in a cycle.
    """

    def __init__(self, cluster_queues: Iterable[Mapping[str, Any]], cohorts: Iterable[Mapping[str, Any]] = ()) -> None:
        self._members: dict[_Id, _Member] = {}
        self._subtrees: dict[tuple[_Id, Key], int] = {}
        for cohort in cohorts:
            spec = cohort.get("spec") or {}
            self._add(("cohort", cohort["metadata"]["name"]), spec, spec.get("parentName"))
        for queue in cluster_queues:
            spec = queue.get("spec") or {}
            member = self._add(("queue", queue["metadata"]["name"]), spec, spec.get("cohortName"))
            member.used = _used(queue.get("status") or {})
        for child, member in list(self._members.items()):
            if member.parent is not None:
                self._members.setdefault(member.parent, _Member()).children.append(child)

    def _add(self, ident: _Id, spec: Mapping[str, Any], parent: str | None) -> _Member:
        member = _Member(("cohort", parent) if parent else None, _quotas(spec))
        self._members[ident] = member
        return member

    def quota(self, queue: str, key: Key) -> Quota:
        """Return what the queue itself has."""
        return self._members["queue", queue].quotas.get(key, Quota())

    def used(self, queue: str, key: Key) -> int:
        """Return what is reserved in the queue, borrowed amounts included."""
        return self._members["queue", queue].used.get(key, 0)

    def ceiling(self, queue: str, key: Key) -> int:
        """Return the most that the queue could have in an empty cluster."""
        return self._potential(self._checked(queue), key)

    def available(self, queue: str, key: Key) -> int:
        """Return what the queue could take now without anybody giving way; negative when it holds too much."""
        return self._available(self._checked(queue), key, bounded=True)

    def unused(self, queue: str, key: Key) -> int:
        """Return what lies unused and lendable in the cohort, whatever the queue may borrow."""
        return self._available(self._checked(queue), key, bounded=False)

    def _checked(self, queue: str) -> _Id:
        seen: list[_Id] = []
        ident: _Id | None = ("queue", queue)
        while ident is not None:
            if ident in seen:
                raise CohortCycle(" -> ".join(name for _, name in [*seen[seen.index(ident) :], ident]))
            seen.append(ident)
            ident = self._members[ident].parent
        return seen[0]

    def _subtree(self, ident: _Id, key: Key) -> int:
        known = self._subtrees.get((ident, key))
        if known is not None:
            return known
        member = self._members[ident]
        lent = sum(self._subtree(child, key) - self._kept(child, key) for child in member.children)
        whole = self._subtrees[ident, key] = member.quotas.get(key, Quota()).nominal + lent
        return whole

    def _kept(self, ident: _Id, key: Key) -> int:
        limit = self._members[ident].quotas.get(key, Quota()).lending_limit
        return 0 if limit is None else max(0, self._subtree(ident, key) - limit)

    def _usage(self, ident: _Id, key: Key) -> int:
        member = self._members[ident]
        if ident[0] == "queue":
            return member.used.get(key, 0)
        return sum(max(0, self._usage(child, key) - self._kept(child, key)) for child in member.children)

    def _potential(self, ident: _Id, key: Key) -> int:
        member = self._members[ident]
        whole = self._subtree(ident, key)
        if member.parent is None:
            return whole
        most = self._kept(ident, key) + self._potential(member.parent, key)
        limit = member.quotas.get(key, Quota()).borrowing_limit
        return most if limit is None else min(most, whole + limit)

    def _available(self, ident: _Id, key: Key, *, bounded: bool) -> int:
        member = self._members[ident]
        whole, kept, used = self._subtree(ident, key), self._kept(ident, key), self._usage(ident, key)
        if member.parent is None:
            return whole - used
        above = self._available(member.parent, key, bounded=bounded)
        limit = member.quotas.get(key, Quota()).borrowing_limit
        if limit is not None and bounded:
            above = min(above, whole - kept - max(0, used - kept) + limit)
        return max(0, kept - used) + above


def _quotas(spec: Mapping[str, Any]) -> dict[Key, Quota]:
    return {
        (flavor["name"], entry["name"]): Quota(
            nominal=read_amount(entry["name"], entry.get("nominalQuota", 0)),
            borrowing_limit=_limit(entry, "borrowingLimit"),
            lending_limit=_limit(entry, "lendingLimit"),
        )
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for entry in flavor.get("resources") or ()
    }


def _limit(entry: Mapping[str, Any], name: str) -> int | None:
    return None if entry.get(name) is None else read_amount(entry["name"], entry[name])


def _used(status: Mapping[str, Any]) -> dict[Key, int]:
    return {
        (flavor["name"], entry["name"]): read_amount(entry["name"], entry.get("total", 0))
        for flavor in status.get("flavorsReservation") or ()
        for entry in flavor.get("resources") or ()
    }
