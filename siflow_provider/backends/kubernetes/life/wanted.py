"""Which runs are looked for: their ids, and as far as it is known how the jobs of their attempts are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from siflow_provider.core.identity import Identity
    from siflow_provider.core.status import JobRef
    from siflow_provider.core.trail import Trail

__all__ = ["Wanted", "wanted", "wanted_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs.

    Attributes:
        runs: their own ids -> (number of an attempt -> the name of its job); None where names are not known.
        attempt: the one of this number; None for all.
        gap: how many numbers in a row may be without a job, before one that has one.
        kind: the form's kind; None for every kind.
        known: the name of one attempt, where no more is known.
    """

    runs: Mapping[str, Callable[[int], str] | None]
    attempt: int | None = None
    gap: int = 1
    kind: str | None = None
    known: str = ""

    @property
    def text(self) -> str:
        """The ids, for people."""
        return ", ".join(self.runs)


def wanted(runs: Sequence[Identity], trail: Trail | None = None, *, attempt: int | None = None) -> Wanted:
    """Return which runs the identities mean; a trail gives the names of their attempts."""
    if trail is None:
        return Wanted({run.task_uuid: None for run in runs}, attempt)
    names = {run.task_uuid: _names(run, trail.prefix) for run in runs}
    return Wanted(names, attempt, trail.gap, trail.kind)


def wanted_of(ref: JobRef) -> Wanted:
    """Return which run a ref means: only its own name is known."""
    return Wanted({ref.task_uuid: None}, known=ref.name)


def _names(run: Identity, prefix: str) -> Callable[[int], str]:
    return lambda number: run.for_attempt(number).name(prefix)
