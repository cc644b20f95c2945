"""The four answers to "can this task fit on this machine?", each with its numbers."""

from __future__ import annotations

from siflow_provider.backends.local.capacity import Amounts
from siflow_provider.backends.local.ledger import QUEUE, Usage
from siflow_provider.core.quota import Answer, QuotaReport, Shortage, Verdict

__all__ = ["answer"]


def answer(need: Amounts, replicas: tuple[Amounts, ...], usage: Usage) -> QuotaReport:
    """Return the report for a task that needs `need` in all; `replicas` are the sizes of its replicas."""
    ever = _fit(need, usage.capacity, "this machine", "the task fits on this machine when nothing else runs")
    free = _fit(need, usage.free, "this machine's free share", "the whole task fits now")
    return QuotaReport(
        queue=QUEUE,
        remaining=_remaining(need, usage),
        available=_in_turn(free, usage),
        idle=_idle(replicas, usage),
        ever=ever,
    )


def _fit(need: Amounts, room: Amounts, where: str, yes: str) -> Answer:
    short = tuple(
        Shortage(name, wanted, max(0.0, there), unit, where)
        for (name, wanted, unit), (_, there, _) in zip(need.rows(), room.rows(), strict=True)
        if wanted > there
    )
    if not short:
        return Answer(Verdict.YES, yes)
    return Answer(Verdict.NO, f"the task does not fit: {', '.join(item.resource for item in short)} short", short)


def _remaining(need: Amounts, usage: Usage) -> Answer:
    """(a) Nobody has a quota of their own here: what a user may have is what the machine has."""
    held = len(usage.holding)
    answer = _fit(need, usage.capacity, "this machine", "users have no quota of their own on this machine")
    if answer.verdict is Verdict.YES:
        return Answer(Verdict.YES, f"{answer.text}; {held} {'run holds' if held == 1 else 'runs hold'} a share of it")
    return answer


def _in_turn(free: Answer, usage: Usage) -> Answer:
    """(b) Room alone is not enough while others wait for it."""
    waiting = sum(entry.need.fits(usage.capacity) for entry in usage.waiting)
    if free.verdict is Verdict.YES and waiting:
        return Answer(Verdict.NO, f"there is room, but {waiting} {'run is' if waiting == 1 else 'runs are'} before it")
    return free


def _idle(replicas: tuple[Amounts, ...], usage: Usage) -> Answer:
    """(c) One node: what is free on it, and how many replicas of the largest size go into it."""
    largest = max(replicas, key=lambda size: (size.gpus, size.millicores, size.memory))
    fitting = largest.times(usage.free)
    parts = ", ".join(_row(name, value, unit) for name, value, unit in usage.free.rows())
    verdict = Verdict.YES if fitting >= len(replicas) else Verdict.NO
    words = "replica of this size fits" if len(replicas) == 1 else "replicas of this size fit"
    return Answer(verdict, f"unused on this machine: {parts}; {min(fitting, len(replicas))} of {len(replicas)} {words}")


def _row(name: str, value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{name} {value / 2**30:.2f} GiB"
    return f"{name} {value:g}"
