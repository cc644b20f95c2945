"""When following a run must act although nothing happened. Pure: moments in, what is due out.

Clocks go by time, never by traffic: a quiet watch or a silent log ends nothing by itself. The one that counts failed
pulls is due as soon as a snapshot shows too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from siflow_provider.core.diagnosis import Evidence, diagnose
from siflow_provider.core.status import Failure, FailureClass, Phase, ReplicaStatus, Status
from siflow_provider.spec.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siflow_provider.core.outcome import FollowPolicy

__all__ = ["Clock", "Sight", "due_clock", "duration_text", "expiry_failure", "expiry_of_stop", "next_moment", "stopper"]


class Clock(StrEnum):
    """What can run out, in the words of the form."""

    EXECUTION = "execution_timeout"
    QUEUE = "queue_timeout"
    START = "start_timeout"
    HANG = "hang_timeout"
    IMAGE = "image_pull_retries"
    FALLBACK = "fallback_after"


@dataclass(frozen=True, slots=True)
class Sight:
    """What the clocks look at.

    Attributes:
        status: the last snapshot that was an answer (never `unknown`).
        seen_at: when it came.
        phase_since: when its phase was first seen.
        active_at: when the run last gave a sign of work; None while its logs can't be read, which is no silence.
        known: False while the backend gives no answer about the run.
    """

    status: Status
    seen_at: datetime
    phase_since: datetime
    active_at: datetime | None
    known: bool = True

    @property
    def queue_start(self) -> datetime:
        """The moment from which an unbroken stay would have given the time spent in the queue so far."""
        return self.seen_at - timedelta(seconds=self.status.queued_seconds)

    def queued_seconds(self, now: datetime) -> float:
        """Return the time in the queue so far."""
        if self.status.phase is not Phase.QUEUED:
            return self.status.queued_seconds
        return max(0.0, (now - self.queue_start).total_seconds())


def due_clock(policy: FollowPolicy, sight: Sight | None, now: datetime) -> Clock | None:
    """Return the clock that ran out first, or None."""
    return min(((moment, clock) for clock, moment in _moments(policy, sight) if moment <= now), default=(now, None))[1]


def next_moment(policy: FollowPolicy, sight: Sight | None) -> datetime | None:
    """Return when to look again, or None when nothing can run out."""
    return min((moment for _, moment in _moments(policy, sight)), default=None)


def _moments(policy: FollowPolicy, sight: Sight | None) -> list[tuple[Clock, datetime]]:
    out: list[tuple[Clock, datetime]] = []
    if not policy.own:
        return out
    if policy.deadline is not None:
        out.append((Clock.EXECUTION, policy.deadline))
    if sight is None or not sight.known:
        return out
    match sight.status.phase:
        case Phase.QUEUED:
            out.extend(_queue_moments(policy, sight))
        case Phase.STARTING:
            out.extend(_start_moments(policy, sight) + _image_moments(policy, sight))
        case Phase.RUNNING:
            out.extend(_hang_moments(policy, sight))
    return out


def _queue_moments(policy: FollowPolicy, sight: Sight) -> list[tuple[Clock, datetime]]:
    out: list[tuple[Clock, datetime]] = []
    if policy.queue_timeout is not None:
        left = timedelta(seconds=policy.queue_timeout - policy.queued_before)
        out.append((Clock.QUEUE, sight.queue_start + left))
    if policy.fallback_after is not None:
        out.append((Clock.FALLBACK, sight.queue_start + timedelta(seconds=policy.fallback_after)))
    return out


def _start_moments(policy: FollowPolicy, sight: Sight) -> list[tuple[Clock, datetime]]:
    if policy.start_timeout is None:
        return []
    start, ran = sight.status.admitted_at or sight.phase_since, sight.status.running_at
    if ran is not None and ran >= start:
        return []  # all replicas ran once since this admission: one of them starting anew is no failed start
    return [(Clock.START, start + timedelta(seconds=policy.start_timeout))]


def _image_moments(policy: FollowPolicy, sight: Sight) -> list[tuple[Clock, datetime]]:
    allowed = policy.image_pull_retries
    if allowed is None or allowed < 0 or sight.status.failed_pulls <= allowed:
        return []
    return [(Clock.IMAGE, sight.seen_at)]


def _hang_moments(policy: FollowPolicy, sight: Sight) -> list[tuple[Clock, datetime]]:
    if policy.hang_timeout is None or sight.active_at is None:
        return []
    since = max(sight.active_at, sight.phase_since)
    return [(Clock.HANG, since + timedelta(seconds=policy.hang_timeout))]


def stopper(clock: Clock, policy: FollowPolicy) -> str:
    """Return who stops the run, in words that `expiry_of_stop` understands again."""
    seconds = {
        Clock.QUEUE: policy.queue_timeout,
        Clock.START: policy.start_timeout,
        Clock.HANG: policy.hang_timeout,
    }.get(clock)
    return str(clock) if seconds is None else f"{clock} of {duration_text(seconds)}"


def expiry_of_stop(stopped_by: str) -> Clock | None:
    """Return the clock that stopped a run, so that a follower that starts anew ends it as the first would have."""
    word = stopped_by.partition(" ")[0]
    return next((clock for clock in Clock if clock == word and clock is not Clock.FALLBACK), None)


def expiry_failure(clock: Clock, policy: FollowPolicy, status: Status) -> Failure:
    """Return the failure of a run that a clock ended, with the last known snapshot as evidence."""
    limit = stopper(clock, policy)
    waiting = _waiting(status)
    match clock:
        case Clock.IMAGE:
            return _image_failure(policy, status)
        case Clock.QUEUE:
            summary = f"{limit}: the task was in the queue longer than that{waiting}"
            hint = "Raise queue_timeout, ask for less, or see who holds the quota (siflow-provider quota)."
        case Clock.START:
            summary = f"{limit}: not all replicas ran in that time after the admission{waiting}"
            hint = "See the events; raise start_timeout where pulling the image or scheduling takes longer."
        case Clock.HANG:
            summary = f"{limit}: no log line and no progress for that long while running"
            hint = "See the stack of each rank in the log; raise hang_timeout where silence is normal."
        case _:
            until = "" if policy.deadline is None else f" at {_local(policy.deadline, policy.timezone)}"
            summary = f"{limit}: the time of the whole try was over{until}{waiting}"
            hint = "Raise execution_timeout; it counts the time in the queue and earlier attempts too."
    category = FailureClass.HANG if clock is Clock.HANG else FailureClass.TIMEOUT
    return Failure(category=category, summary=summary, hint=hint, transient=clock is Clock.HANG)


def _image_failure(policy: FollowPolicy, status: Status) -> Failure:
    """Return the failure of a run whose image can't be pulled; whether a retry may cure it lies in the error."""
    failed = f"{status.failed_pulls} failed pull{'' if status.failed_pulls == 1 else 's'}"
    limit = f"{Clock.IMAGE} of {policy.image_pull_retries}: {failed} of one replica's image"
    for replica, said in _troubles(status):
        found = diagnose(Evidence(replica=replica.name, rank=replica.rank, reason=said))
        if found.category is FailureClass.IMAGE:
            return found.model_copy(update={"summary": f"{limit}: {found.summary}"})
    hint = "Check the image's name, tag, registry and pull secret."
    return Failure(category=FailureClass.IMAGE, summary=f"{limit}{_waiting(status)}", hint=hint)


def _troubles(status: Status) -> Iterator[tuple[ReplicaStatus, str]]:
    """Yield what each replica waits for, then what its events say: one may come before the state that it tells of."""
    replicas = {each.name: each for each in status.replicas}
    yield from ((each, each.reason) for each in replicas.values() if each.reason and each.phase is Phase.STARTING)
    for event in status.events:
        name, _, text = event.text.partition(": ")
        if event.warning and name in replicas:
            yield replicas[name], text


def _waiting(status: Status) -> str:
    if status.queue is not None and status.phase is Phase.QUEUED:
        told = status.queue.told()
        mark = ":" if status.queue.position is None else ","
        return f" (queue {status.queue.queue}" + (f"{mark} {told})" if told else ")")
    stuck = [f"{each.name}: {each.reason}" for each in status.replicas if each.reason and not each.phase.terminal]
    texts = stuck or ([status.reason] if status.reason else [])
    return f" ({'; '.join(texts[:5])})" if texts else ""


def _local(moment: datetime, timezone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"


def duration_text(seconds: float) -> str:
    """Return a length as the form writes it.

    Example:
        >>> duration_text(5400), duration_text(90), duration_text(0.5)
        ('1h30m', '1m30s', '0.5s')
    """
    text = format_duration(seconds)
    return text if isinstance(text, str) else f"{text:g}s"
