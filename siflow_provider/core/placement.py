"""Which of the listed instances a task is submitted to.

A backend renders and answers for quota by `task.flavors[0]`; choosing another instance is putting it first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.core.status import Status
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["Offer", "ask_offers", "ask_others", "choose", "instance_of", "prefer"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What one listed instance answers.

    Attributes:
        flavor: its index in the task's list, best first.
        report: the answers; None when none could be had.
        trouble: why not.
    """

    flavor: int
    report: QuotaReport | None
    trouble: str = ""

    @property
    def never(self) -> bool:
        """True when it is proven that this instance can never take the task."""
        return self.report is not None and self.report.never

    @property
    def fits_now(self) -> bool:
        """True when it is known to have room for the whole task now."""
        return self.report is not None and self.report.fits_now


def prefer(task: ResolvedTask, flavor: int) -> ResolvedTask:
    """Return the task with one of its flavors put first, the others behind it in their order.

    Example:
        >>> [each.instance for each in prefer(task, 1).flavors]  # task lists a, b, c
        ['b', 'a', 'c']
    """
    if flavor == 0:
        return task
    rest = task.flavors[:flavor] + task.flavors[flavor + 1 :]
    return replace(task, flavors=(task.flavors[flavor], *rest))


def instance_of(task: ResolvedTask, status: Status) -> int:
    """Return the index of the listed instance that a run went to: as its queue tells, else as it was submitted."""
    queue = status.queue.queue if status.queue is not None else None
    there = [index for index, flavor in enumerate(task.flavors) if queue is not None and flavor.queue == queue]
    if len(there) == 1:
        return there[0]
    known = status.moves.flavor
    return known if 0 <= known < len(task.flavors) else 0


async def ask_offers(backend: TrainingBackend, task: ResolvedTask, *, idle: bool = False) -> list[Offer]:
    """Ask for each listed instance in its order, up to the first with room now. A backend's error is no answer.

    Args:
        backend: opened by the caller.
        task: the resolved task.
        idle: ask for idle nodes too, which nothing is decided by: for people who look.
    """
    offers: list[Offer] = []
    for index in range(len(task.flavors)):
        offers.append(await _ask(backend, task, index, idle=idle))
        if offers[-1].fits_now:
            break
    return offers


async def ask_others(backend: TrainingBackend, task: ResolvedTask, current: int) -> int | None:
    """Return the first listed instance other than `current` that can take the whole task now; None when none can."""
    for index in range(len(task.flavors)):
        if index != current and (await _ask(backend, task, index)).fits_now:
            return index
    return None


async def _ask(backend: TrainingBackend, task: ResolvedTask, index: int, *, idle: bool = False) -> Offer:
    try:
        return Offer(index, await backend.quota(prefer(task, index), idle=idle))
    except BackendError as error:
        return Offer(index, None, str(error))


def choose(offers: Sequence[Offer]) -> Offer:
    """Return the first offer with room now, else the first that could ever take the task, else the first."""
    for offer in offers:
        if offer.fits_now:
            return offer
    for offer in offers:
        if not offer.never:
            return offer
    return offers[0]
