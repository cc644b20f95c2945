"""Why a run failed: from exit code, marks of the system, last lines and events to a class and what to do. Pure.

Every backend gathers evidence of the replica that failed first and asks here, so that the same fault has the same
class everywhere. `transient` is what a retry can cure with nothing changed (docs/reference/operators.md).
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siflow_provider.core.failure_marks import LINE_MARKS, REASON_MARKS, Mark
from siflow_provider.core.status import Failure, FailureClass
from siflow_provider.core.veil import Veil

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAX_LAST_LINES", "Evidence", "diagnose", "signal_of", "with_last_lines"]

MAX_LAST_LINES = 20
_SIGNAL_BASE = 128
_HIGHEST_SIGNAL = 64
_COMMAND_CODES = {
    126: "the command could not be executed (not executable, or built for another machine)",
    127: "the command was not found",
}
_EXCEPTION = re.compile(r"(?!.*ChildFailedError)(\[?rank\d+\]?: )?[\w.]+(Error|Exception|Interrupt|Exit)\b(: |$)")
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
_SIGNAL_HINTS = {
    "SIGKILL": "Often the system's memory ran out: give a replica more memory, or lower the batch size or the number "
    "of data loader workers.",
    "SIGBUS": "Often /dev/shm is full: raise shm_size, or lower the number of data loader workers.",
    "SIGTERM": "Something outside the task ended it: see the events, or the machine's own log.",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about the replica that failed first.

    Attributes:
        replica: its name, such as `worker-1`; None when no replica failed (the run as a whole did).
        rank: its rank.
        exit_code: as a shell gives it: 128 + n for signal n. None when it never ended or is not known.
        out_of_memory: True when the system itself says that memory ran out (OOMKilled, a cgroup's oom_kill count).
        reason: the backend's own word, such as `Evicted` or `ErrImagePull`.
        last_lines: its last log lines, oldest first.
        events: what the backend said around the failure, oldest first.
        veil: over the run's hidden values. A summary quotes the beginning of a text, and half a value can't be masked.
    """

    replica: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    veil: Veil = Veil()  # noqa: RUF009 - frozen

    def veiled(self) -> Evidence:
        """Return it with each hidden value in its texts masked."""
        over = self.veil.over
        lines, events = (tuple(map(over, texts)) for texts in (self.last_lines, self.events))
        return replace(self, reason=over(self.reason), last_lines=lines, events=events)

    @property
    def who(self) -> str:
        """The replica in words: `worker-1 (rank 2)`."""
        if self.replica is None:
            return "the run"
        return self.replica if self.rank is None else f"{self.replica} (rank {self.rank})"


def signal_of(exit_code: int | None) -> str | None:
    """Return the name of the signal that an exit code stands for, or None for an ordinary one.

    Example:
        >>> signal_of(137), signal_of(1), signal_of(255)
        ('SIGKILL', None, None)
    """
    if exit_code is None or not _SIGNAL_BASE < exit_code <= _SIGNAL_BASE + _HIGHEST_SIGNAL:
        return None
    number = exit_code - _SIGNAL_BASE
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def diagnose(evidence: Evidence) -> Failure:
    """Return the failure that the evidence speaks for, with hidden values masked.

    What the backend or the system says for certain goes before what the last lines tell, and these before the bare
    exit code. Of the lines the last telling one decides: it is the nearest to the end.
    """
    evidence = evidence.veiled()
    if evidence.out_of_memory:
        return _failure(
            evidence,
            FailureClass.OUT_OF_MEMORY,
            f"{evidence.who} was killed because its memory ran out",
            hint="Give a replica more memory (a larger instance or more units_per_replica), or make the task smaller.",
        )
    mark = _find(REASON_MARKS, evidence.reason)
    if mark is not None:
        return _marked(evidence, mark, evidence.reason)
    for line in reversed(evidence.last_lines):
        mark = _find(LINE_MARKS, line)
        if mark is not None:
            return _marked(evidence, mark, line)
    return _by_exit_code(evidence)


def with_last_lines(failure: Failure, lines: Sequence[str], veil: Veil) -> Failure:
    """Return the failure with a replica's last lines as evidence, which a backend that has no logs could not judge by.

    Where only the exit code had spoken, the lines decide the class; what the system said for certain stays. Hidden
    values are masked in the lines.
    """
    if failure.last_lines or not lines:
        return failure
    shown = tuple(veil.over(line) for line in lines[-MAX_LAST_LINES:])
    if failure.exit_code is None or failure.category not in {FailureClass.CODE, FailureClass.PLATFORM}:
        return failure.model_copy(update={"last_lines": shown})
    evidence = Evidence(failure.replica, failure.rank, failure.exit_code, last_lines=shown, events=failure.events)
    found = diagnose(evidence)
    told = found.summary.partition(_ended(evidence))[2]
    summary = failure.summary if told in failure.summary else f"{failure.summary}{told}"
    return found.model_copy(update={"summary": summary})


def _find(marks: tuple[Mark, ...], text: str) -> Mark | None:
    return next((mark for mark in marks if mark.pattern.search(text)), None) if text else None


def _marked(evidence: Evidence, mark: Mark, text: str) -> Failure:
    summary = f"{evidence.who} {_ended(evidence)}: {text.strip()[:300]}"
    return _failure(evidence, mark.category, summary, hint=mark.hint, transient=mark.transient)


def _ended(evidence: Evidence) -> str:
    if evidence.exit_code is None:
        return "failed"
    name = signal_of(evidence.exit_code)
    return f"ended by {name} (exit code {evidence.exit_code})" if name else f"ended with exit code {evidence.exit_code}"


def _by_exit_code(evidence: Evidence) -> Failure:
    code = evidence.exit_code
    name = signal_of(code)
    if name is not None:
        category = FailureClass.PLATFORM if name in _FROM_OUTSIDE else FailureClass.CODE
        hint = _SIGNAL_HINTS.get(name, "A crash in native code: see the last lines, or run with PYTHONFAULTHANDLER=1.")
        return _failure(evidence, category, f"{evidence.who} {_ended(evidence)}", hint=hint, transient=True)
    if code is None:
        summary = f"{evidence.who} failed" + (f": {evidence.reason}" if evidence.reason else "")
        return _failure(evidence, FailureClass.PLATFORM, summary, hint="See the events of the run.")
    summary = f"{evidence.who} {_ended(evidence)}"
    if code in _COMMAND_CODES:
        summary += f": {_COMMAND_CODES[code]}"
    elif told := _last_exception(evidence.last_lines):
        summary += f": {told}"
    elif evidence.reason:
        summary += f": {evidence.reason}"
    return _failure(evidence, FailureClass.CODE, summary, hint="The task's own code ended so: see its last lines.")


def _last_exception(lines: tuple[str, ...]) -> str:
    """Return the last line that tells an exception, but for the launcher's: that one says only that a rank failed."""
    return next((line[:300] for line in reversed(lines) if _EXCEPTION.match(line)), "")


def _failure(
    evidence: Evidence, category: FailureClass, summary: str, *, hint: str = "", transient: bool = False
) -> Failure:
    return Failure(
        category=category,
        summary=summary,
        hint=hint,
        replica=evidence.replica,
        rank=evidence.rank,
        exit_code=evidence.exit_code,
        last_lines=evidence.last_lines[-MAX_LAST_LINES:],
        events=evidence.events,
        transient=transient,
    )
