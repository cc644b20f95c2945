"""The four answers for a whole task on a cluster, from one picture of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.queueing.amounts import shortage, shown
from siflow_provider.backends.kubernetes.queueing.claims import Claims, claims_of
from siflow_provider.backends.kubernetes.queueing.fitting import Missing, Room, choice_exists, missing
from siflow_provider.backends.kubernetes.queueing.namespace_answers import quota_ever, quota_left, range_ever
from siflow_provider.backends.kubernetes.queueing.node_answers import free_answer, size_answer
from siflow_provider.backends.kubernetes.queueing.picture import Picture, no, unknown, worst, yes
from siflow_provider.backends.kubernetes.queueing.podsets import total
from siflow_provider.backends.kubernetes.queueing.quota_tree import CohortCycle, QuotaTree
from siflow_provider.backends.kubernetes.queueing.route import find_route
from siflow_provider.core.quota import Answer, QuotaReport, Verdict

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.queueing.node_answers import Places
    from siflow_provider.backends.kubernetes.queueing.podsets import PodSet
    from siflow_provider.backends.kubernetes.queueing.route import Route

__all__ = ["answer", "places_of"]

_NAMED_FLAVORS = 4
NO_QUEUE = "none"


@dataclass(frozen=True, slots=True)
class _Case:
    """A task before a ClusterQueue."""

    picture: Picture
    sets: Sequence[PodSet]
    route: Route
    claims: Claims
    tree: QuotaTree
    queue: str

    def fits(self, room: Room, yes_text: str, no_text: str) -> Answer:
        """Say whether some choice of flavors fits into `room`."""
        found = choice_exists(self.claims.choices, room)
        if found:
            return yes(yes_text)
        if found is None:
            return unknown("there are too many choices of flavors to try them all")
        short = [
            shortage(each.resource, each.need, each.have, self._where(each))
            for each in missing(self.claims.choices, room)
        ]
        return no(no_text, *short)

    def _where(self, short: Missing) -> str:
        flavors = ", ".join(short.flavors[:_NAMED_FLAVORS]) + (", ..." if len(short.flavors) > _NAMED_FLAVORS else "")
        alone = f", for {short.pod_set} alone" if short.pod_set and len(self.sets) > 1 else ""
        return f"the ClusterQueue {self.queue!r} (flavor {flavors}{alone})"

    def rooms(self, room: Callable[[str, str], str]) -> str:
        """Return the numbers of the flavors that the task may have."""
        flavors = dict.fromkeys(
            (flavor, name) for one in self.claims.choices for flavor in one.flavors for name in one.asked
        )
        shown_flavors = list(dict.fromkeys(flavor for flavor, _ in flavors))
        told = [
            f"flavor {flavor}: {', '.join(room(flavor, name) for each, name in flavors if each == flavor)}"
            for flavor in shown_flavors[:_NAMED_FLAVORS]
        ]
        more = len(shown_flavors) - _NAMED_FLAVORS
        return "; ".join(told) + (f"; {more} more flavors" if more > 0 else "")


def answer(picture: Picture, sets: Sequence[PodSet]) -> QuotaReport:
    """Return the four answers for the pod sets of a whole task."""
    if not picture.kueue or picture.queue is None:
        return _without_queue(picture, sets)
    route = find_route(picture)
    if route.cluster is None or picture.cluster_queues is None:
        return _without_cluster_queue(picture, sets, route)
    cluster = route.cluster
    claims = claims_of(sets, cluster, picture)
    if cluster["spec"].get("cohortName") and picture.cohorts is None:
        name = cluster["spec"]["cohortName"]
        return _blind(picture, sets, route, f"the cohort {name!r} can't be read, which may lend to this queue")
    tree = QuotaTree(picture.cluster_queues, picture.cohorts or ())
    case = _Case(picture, sets, route, claims, tree, cluster["metadata"]["name"])
    try:
        ever = _ever(case)
        return QuotaReport(picture.queue, _remaining(case), _available(case), _idle(case), ever)
    except CohortCycle as cycle:
        return _blind(picture, sets, route, f"its cohorts are each other's parents: {cycle}")


def places_of(picture: Picture, sets: Sequence[PodSet]) -> Places | None:
    """Return which nodes the pods may go to by their queue's flavors; None where that is not known."""
    route = find_route(picture)
    return None if route.cluster is None else claims_of(sets, route.cluster, picture).places


def _ever(case: _Case) -> Answer:
    """(d) Every way in which it is certain that Kueue, the namespace or the nodes never take the task."""
    claims, name = case.claims, case.queue
    found = [_namespace_proof(case.picture, case.sets), range_ever(case.picture, case.sets)]
    if case.route.barred:
        found.append(no(case.route.barred))
    if claims.uncovered:
        found.append(no(f"the ClusterQueue {name!r} has no quota for {', '.join(claims.uncovered)}"))
    if claims.doubtful:
        told = ", ".join(claims.doubtful)
        found.append(unknown(f"what Kueue counts for {told} is not known, and whether {name!r} has quota for it"))
    found += [no(f"no flavor of the ClusterQueue {name!r} takes {reason}") for reason in claims.refused]

    def ceiling(flavor: str, resource: str) -> int:
        return case.tree.ceiling(case.queue, (flavor, resource))

    most = case.rooms(lambda flavor, resource: shown({resource: ceiling(flavor, resource)}))
    found.append(
        case.fits(
            ceiling,
            f"the whole task needs {shown(total(case.sets))}; the ClusterQueue {name!r} could have {most}",
            f"the whole task is larger than all that the ClusterQueue {name!r} could have in an empty cluster",
        )
    )
    if all(each.verdict is not Verdict.NO for each in found):
        found.append(size_answer(case.sets, claims.places, case.picture.machines, static=case.picture.static))
    return worst(*found)


def _namespace_proof(picture: Picture, sets: Sequence[PodSet]) -> Answer:
    """Return what the namespace's quotas prove; nothing when they prove nothing."""
    found = quota_ever(picture, sets)
    return found if found.verdict is Verdict.NO else yes("")


def _remaining(case: _Case) -> Answer:
    """(a) What the queue may still take by its own right: its own quota and what it may borrow, less what it holds."""

    def room(flavor: str, resource: str) -> int:
        key = flavor, resource
        return case.tree.ceiling(case.queue, key) - case.tree.used(case.queue, key)

    def told(flavor: str, resource: str) -> str:
        key = flavor, resource
        most, own = case.tree.ceiling(case.queue, key), case.tree.quota(case.queue, key).nominal
        whole, kept = (shown({resource: value}).removeprefix(f"{resource} ") for value in (most, own))
        return f"{shown({resource: room(flavor, resource)})} of {whole}" + (f" ({kept} its own)" if own != most else "")

    by_queue = case.fits(
        room,
        f"left to the ClusterQueue {case.queue!r}: {case.rooms(told)}",
        f"the ClusterQueue {case.queue!r} has too little of its quota left",
    )
    by_namespace = quota_left(case.picture, case.sets)
    return worst(_unclaimed(case), by_queue, *([by_namespace] if by_namespace.verdict is Verdict.NO else []))


def _available(case: _Case) -> Answer:
    """(b) What the cohort could give now without preemption; a reference and no reservation."""

    def room(flavor: str, resource: str) -> int:
        return case.tree.available(case.queue, (flavor, resource))

    waiting = ((case.route.cluster or {}).get("status") or {}).get("pendingWorkloads", 0)
    strict = ((case.route.cluster or {}).get("spec") or {}).get("queueingStrategy") == "StrictFIFO"
    behind = f"; {waiting} {'task waits' if waiting == 1 else 'tasks wait'} in this ClusterQueue" if waiting else ""
    numbers = case.rooms(lambda flavor, resource: shown({resource: room(flavor, resource)}))
    found = case.fits(
        room,
        f"the whole task fits now into what is free: {numbers}{behind}",
        f"the ClusterQueue {case.queue!r} has too little free now{behind}",
    )
    if found.verdict is Verdict.YES and waiting and strict:
        found = no(f"there is room, but the queue is strictly in order{behind}")
    closed = [no(text) for text in (case.route.barred, case.route.closed) if text]
    return worst(_unclaimed(case), found, *closed)


def _unclaimed(case: _Case) -> Answer:
    """Return a refusal where the queue gives nothing for a part of the task, whatever is free in it."""
    if case.claims.uncovered or case.claims.refused:
        return no(f"the ClusterQueue {case.queue!r} does not take this task")
    if case.claims.doubtful:
        return unknown(f"what Kueue counts for {', '.join(case.claims.doubtful)} is not known")
    return yes("")


def _idle(case: _Case) -> Answer:
    """(c) What the cohort leaves unused and lendable, and what of it fits node by node."""

    def room(flavor: str, resource: str) -> int:
        return case.tree.unused(case.queue, (flavor, resource))

    numbers = case.rooms(lambda flavor, resource: shown({resource: room(flavor, resource)}))
    cohort = ((case.route.cluster or {}).get("spec") or {}).get("cohortName")
    whose = f"the cohort {cohort!r}" if cohort else f"the ClusterQueue {case.queue!r}"
    text = f"unused in {whose}: {numbers}"
    lent = case.fits(room, text, text)
    if case.claims.places is None:
        nodes = unknown("the flavors can't be read, so it is not known which nodes are theirs")
    else:
        nodes = free_answer(case.sets, case.claims.places, case.picture.machines)
    both = worst(lent, nodes)
    return Answer(both.verdict, f"{lent.text}; {nodes.text}", both.short)


def _without_cluster_queue(picture: Picture, sets: Sequence[PodSet], route: Route) -> QuotaReport:
    """Return the answers where the queue is missing, or what is behind it can't be read."""
    if route.barred:
        bar = no(route.barred)
        return QuotaReport(picture.queue or NO_QUEUE, bar, bar, bar, bar)
    return _blind(picture, sets, route, route.blind)


def _blind(picture: Picture, sets: Sequence[PodSet], route: Route, why: str) -> QuotaReport:
    """Return the answers where the queue's quota is not known; the namespace may still prove something."""
    dark = unknown(why)
    own, free = quota_left(picture, sets), free_answer(sets, {}, picture.machines)
    ever = worst(
        dark,
        _namespace_proof(picture, sets),
        range_ever(picture, sets),
        *([no(route.barred)] if route.barred else []),
    )
    return QuotaReport(
        queue=picture.queue or NO_QUEUE,
        remaining=worst(dark, own) if own.verdict is Verdict.NO else dark,
        available=no(route.closed) if route.closed else dark,
        idle=Answer(Verdict.UNKNOWN, f"{why}; {free.text}"),
        ever=ever,
    )


def _without_queue(picture: Picture, sets: Sequence[PodSet]) -> QuotaReport:
    """Return the answers where nothing queues: the namespace's quotas, and the nodes."""
    own = quota_left(picture, sets)
    free = free_answer(sets, {}, picture.machines)
    now = worst(free, own) if own.verdict is Verdict.NO else free
    size = size_answer(sets, {}, picture.machines, static=picture.static)
    ever = worst(_namespace_proof(picture, sets), range_ever(picture, sets), size)
    if ever.verdict is Verdict.YES:
        known = picture.machines is not None
        ever = yes("no single replica is too large for the nodes") if known else unknown("the nodes can't be read")
    return QuotaReport(NO_QUEUE, remaining=own, available=now, idle=free, ever=ever, queued=False)
