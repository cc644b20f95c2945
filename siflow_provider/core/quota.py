"""The four answers to "can this task fit?", each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """An answer. `unknown` when the numbers can't be read; it is never taken for yes or no."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Shortage:
    """One number that is short: `need` of `resource` against `have`, both in `unit` (cores, bytes, GPUs)."""

    resource: str
    need: float
    have: float
    unit: str
    where: str = ""

    def __str__(self) -> str:
        place = f" in {self.where}" if self.where else ""
        return f"{self.resource}: need {_amount(self.need, self.unit)}, have {_amount(self.have, self.unit)}{place}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the four answers: the verdict, the sentence that explains it and what is short."""

    verdict: Verdict
    text: str
    short: tuple[Shortage, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """What is known about room for one whole task, in the queue it would go to.

    Attributes:
        queue: the queue's name.
        remaining: (a) the user's remaining quota.
        available: (b) what the pool could give now; a reference and no reservation.
        idle: (c) what the cohort leaves unused, and how many replicas of this size fit node by node.
        ever: (d) whether the task could be admitted in an empty cluster.
        queued: False where nothing queues: the job starts at once, and its pods wait for room one by one.
    """

    queue: str
    remaining: Answer
    available: Answer
    idle: Answer
    ever: Answer
    queued: bool = True

    @property
    def never(self) -> bool:
        """True when it is proven that the task can never be admitted."""
        return self.ever.verdict is Verdict.NO

    @property
    def fits_now(self) -> bool:
        """True when nothing known speaks against an admission now, and room is known to exist."""
        return self.available.verdict is Verdict.YES and self.remaining.verdict is not Verdict.NO and not self.never

    def why_not(self) -> str:
        """Return one sentence that names the numbers that are short; "" when the task fits now."""
        if self.fits_now:
            return ""
        chosen = self.ever if self.never else self.remaining if self.remaining.verdict is Verdict.NO else self.available
        return "; ".join([chosen.text, *_unique(map(str, chosen.short))])


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 2**30:.2f} GiB"
    return f"{value:g} {unit}"
