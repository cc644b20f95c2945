"""What the end of an attempt means: one outcome kind and, without success, one failure with its evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.core.clocks import Clock, expiry_failure, expiry_of_stop
from siflow_provider.core.diagnosis import with_last_lines
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.recovery import is_retried
from siflow_provider.core.status import Failure, FailureClass, Phase, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

__all__ = ["Ending", "judge"]

_EVENTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. `failure` is None for success only."""

    kind: OutcomeKind
    phase: Phase
    failure: Failure | None = None


def judge(
    policy: FollowPolicy,
    status: Status,
    *,
    clock: Clock | None,
    now: datetime,
    last_lines: Callable[[str | None], Sequence[str]],
) -> Ending:
    """Return the ending that a last snapshot stands for.

    Args:
        policy: the attempt's policy.
        status: the terminal snapshot; where `clock` ran out, the last one before the run was stopped for it.
        clock: what ran out, or None.
        now: the moment now.
        last_lines: gives the last lines that were read of a replica, for a backend that has none itself.
    """
    clock = clock or _clock_of(status)
    if clock is not None:
        expired = _expired(clock, policy, status, last_lines)
        return _retry_or(Ending(OutcomeKind.FAILED, Phase.FAILED, expired), policy, status, now)
    match status.phase:
        case Phase.SUCCEEDED:
            return Ending(OutcomeKind.SUCCEEDED, status.phase)
        case Phase.STOPPED:
            return Ending(OutcomeKind.STOPPED, status.phase, _stopped(status))
        case Phase.LOST:
            failure = _with_evidence(status.failure or _lost(status), status, last_lines)
            return _retry_or(Ending(OutcomeKind.LOST, status.phase, failure), policy, status, now)
        case _:
            failure = _with_evidence(status.failure or _unexplained(status), status, last_lines)
            return _retry_or(Ending(OutcomeKind.FAILED, Phase.FAILED, failure), policy, status, now)


def _retry_or(ending: Ending, policy: FollowPolicy, status: Status, now: datetime) -> Ending:
    if ending.failure is not None and is_retried(policy, ending.failure, status.ref.attempt, now):
        return Ending(OutcomeKind.RETRY, ending.phase, ending.failure)
    return ending


def _clock_of(status: Status) -> Clock | None:
    return expiry_of_stop(status.stopped_by) if status.phase is Phase.STOPPED else None


def _expired(
    clock: Clock, policy: FollowPolicy, status: Status, last_lines: Callable[[str | None], Sequence[str]]
) -> Failure:
    failure = expiry_failure(clock, policy, status)
    return _with_evidence(failure, status, last_lines) if clock is not Clock.QUEUE else _with_events(failure, status)


def _with_evidence(failure: Failure, status: Status, last_lines: Callable[[str | None], Sequence[str]]) -> Failure:
    return with_last_lines(_with_events(failure, status), last_lines(failure.replica), status.veil)


def _with_events(failure: Failure, status: Status) -> Failure:
    warnings = tuple(dict.fromkeys(event.text for event in status.events if event.warning))
    if failure.events or not warnings:
        return failure
    return failure.model_copy(update={"events": warnings[-_EVENTS_SHOWN:]})


def _stopped(status: Status) -> Failure:
    who = status.stopped_by or "somebody unknown"
    return Failure(category=FailureClass.STOPPED_BY_USER, summary=f"the run was stopped by {who}")


def _lost(status: Status) -> Failure:
    reason = f": {status.reason}" if status.reason else ""
    return Failure(
        category=FailureClass.LOST,
        summary=f"{status.ref.name} is gone without a trace of its end{reason}",
        hint="Somebody deleted it, or the machine that kept it went down.",
    )


def _unexplained(status: Status) -> Failure:
    reason = f": {status.reason}" if status.reason else ""
    return Failure(category=FailureClass.PLATFORM, summary=f"{status.ref.name} failed{reason}")
