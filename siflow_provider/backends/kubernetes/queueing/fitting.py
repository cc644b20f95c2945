"""Whether a choice of flavors exists that takes all pod sets of a task.

Kueue gives each pod set one flavor for all resources of a resource group; pod sets may get different ones. It tries
flavors in their order and goes on with the next at its next attempt, so every choice may come up: a task is called
impossible only when no choice at all works.

source: Kueue v0.17.0 pkg/scheduler/flavorassigner/flavorassigner.go, findFlavorForPodSets
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Choice", "Missing", "choice_exists", "missing"]

_MOST_STEPS = 20_000
"""Beyond this the question is left open: the time belongs to everybody who shares the event loop."""

Room = Callable[[str, str], int]
"""Flavor and resource -> amount."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One pod set within one resource group: what it asks for there, and the flavors that it may have."""

    pod_set: str
    asked: Mapping[str, int]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """One number that no choice of flavors reaches: `pod_set` is "" for the task as a whole."""

    pod_set: str
    resource: str
    need: int
    have: int
    flavors: tuple[str, ...]


def choice_exists(choices: Sequence[Choice], room: Room) -> bool | None:
    """Say whether flavors can be chosen so that all of them fit; None when there are too many ways to try them all.

    Example:
        >>> choice_exists([Choice("worker", {"cpu": 3}, ("a", "b"))], lambda flavor, _: {"a": 2, "b": 4}[flavor])
        True
    """
    # the hardest first: a set without a way out ends the search at once
    ordered = sorted(choices, key=lambda one: (len(one.flavors), -max(one.asked.values(), default=0)))
    steps = 0
    taken: dict[tuple[str, str], int] = {}

    def place(index: int) -> bool:
        nonlocal steps
        if index == len(ordered):
            return True
        one = ordered[index]
        for flavor in one.flavors:
            steps += 1
            if steps > _MOST_STEPS:
                raise TimeoutError
            if any(taken.get((flavor, name), 0) + value > room(flavor, name) for name, value in one.asked.items()):
                continue
            _take(taken, flavor, one.asked, 1)
            if place(index + 1):
                return True
            _take(taken, flavor, one.asked, -1)
        return False

    try:
        return place(0)
    except TimeoutError:
        return None


def _take(taken: dict[tuple[str, str], int], flavor: str, asked: Mapping[str, int], sign: int) -> None:
    for name, value in asked.items():
        taken[flavor, name] = taken.get((flavor, name), 0) + sign * value


def missing(choices: Sequence[Choice], room: Room) -> list[Missing]:
    """Return the numbers that explain why no choice fits: of the whole task, else of one pod set in one flavor."""
    flavors = tuple(dict.fromkeys(flavor for one in choices for flavor in one.flavors))
    whole: dict[str, int] = {}
    for one in choices:
        for name, value in one.asked.items():
            whole[name] = whole.get(name, 0) + value
    summed = [
        Missing("", name, need, have, flavors)
        for name, need in whole.items()
        if need > (have := sum(max(0, room(flavor, name)) for flavor in flavors))
    ]
    alone = [short for one in choices for short in _alone(one, room)]
    # each number may be there and yet in no flavor together with the others
    return summed or alone or _alone(Choice("", whole, flavors), room)


def _alone(one: Choice, room: Room) -> list[Missing]:
    """Return what a pod set lacks in the flavor that comes nearest to it; nothing when one has room for it."""
    shorts = [
        [
            Missing(one.pod_set, name, value, room(flavor, name), (flavor,))
            for name, value in one.asked.items()
            if value > room(flavor, name)
        ]
        for flavor in one.flavors
    ]
    return min(shorts, key=lambda found: (len(found), sum(_gap(each) for each in found)), default=[])


def _gap(short: Missing) -> float:
    return (short.need - short.have) / max(1, short.need)
