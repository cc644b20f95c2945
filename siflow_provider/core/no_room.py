"""A submission that finds no room: worker, triggerer and terminal wait for it, and give it up, alike.

The attempt counts as queued all the while: `queue_timeout`, `queued_too_long` and the deadline of the whole try hold as
they do in a queue. Only a submission can tell whether there is room, so it is made again now and then: by who has the
run in hand (`RoomWait`), or by the next leg of a task that waits deferred meanwhile (`wait_on`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from siflow_provider.core.alarms import LONG_QUEUE, Alarms
from siflow_provider.core.clocks import Clock, expiry_failure
from siflow_provider.core.expiry import delete_run, finish_run
from siflow_provider.core.outcome import Outcome, OutcomeKind, RunEnd, Totals
from siflow_provider.core.patience import patiently
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from siflow_provider.core.attempts import Ledger, Step
    from siflow_provider.core.outcome import FollowPolicy, Reporter
    from siflow_provider.core.protocol import TrainingBackend

__all__ = ["NoRoom", "RoomWait", "Waiting", "counted", "next_look", "wait_on"]

_SHORTEST, _LONGEST = timedelta(seconds=15), timedelta(minutes=2)


class NoRoom(Exception):
    """There is no room for this attempt now.

    Attributes:
        ref: the attempt that would be; its uid is "" unless it is there and only what belongs to it finds no room.
        reason: the backend's own words.
        ledger: what to submit it with; None = as it was tried.
    """

    def __init__(self, ref: JobRef, reason: str) -> None:
        super().__init__(reason)
        self.ref, self.reason = ref, reason
        self.ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The wait goes on: submit again at `until`.

    Attributes:
        since: when it began.
        until: when to look again.
        ledger: what to submit the attempt with.
        outcome: of the attempt before, which asks for this one; None for the first attempt.
    """

    since: datetime
    until: datetime
    ledger: Ledger
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class _Wait:
    """One attempt that waits, at one moment."""

    backend: TrainingBackend
    policy: FollowPolicy
    reporter: Reporter
    alarms: Alarms
    none: NoRoom
    ledger: Ledger
    outcome: Outcome | None
    since: datetime
    now: datetime

    @property
    def seconds(self) -> float:
        return (self.now - self.since).total_seconds()

    def status(self) -> Status:
        return Status(self.none.ref, Phase.QUEUED, reason=self.none.reason, submitted_at=self.since)

    def limits(self) -> Iterator[tuple[datetime, Clock]]:
        """Yield when the wait is over, and by what."""
        if self.policy.queue_timeout is not None:
            before = 0.0 if self.ledger.moving is None else self.ledger.queued_before
            yield self.since + timedelta(seconds=self.policy.queue_timeout - before), Clock.QUEUE
        if self.policy.deadline is not None:
            yield self.policy.deadline, Clock.EXECUTION

    def lengths(self) -> list[datetime]:
        """Return when somebody wants to hear how long it waits already."""
        lengths = [rule.events[LONG_QUEUE] for rule in self.policy.alerts if LONG_QUEUE in rule.events]
        moments = [self.since + timedelta(seconds=length) for length in lengths]
        return [moment for moment in moments if moment > self.now]

    async def end(self, kind: OutcomeKind, phase: Phase, failure: Failure) -> RunEnd:
        """Tell, and return, what a run tells that ended in its queue; nothing of it is left."""
        ref, before = self.none.ref, self.ledger.totals
        self.alarms.fire_end(kind, replace(self.status(), phase=phase, failure=failure))
        await self.alarms.close()
        if ref.uid:
            await delete_run(self.backend, ref, self.reporter)
            await finish_run(self.backend, ref, self.reporter)
        elif self.outcome is not None and self.outcome.kind is OutcomeKind.RETRY:
            await finish_run(self.backend, self.outcome.ref, self.reporter)
        if self.outcome is not None and self.ledger.moving is None:
            before = before.plus(self.outcome.totals)
        waited = Totals(queued_seconds=self.seconds)
        return RunEnd(Outcome(kind=kind, ref=ref, phase=phase, failure=failure, totals=waited), before)


def next_look(since: datetime, now: datetime, *limits: datetime) -> datetime:
    """Return when to submit again: after half the time waited so far, 15 s to 2 minutes, and not behind a limit."""
    return min([now + min(max((now - since) / 2, _SHORTEST), _LONGEST), *limits])


async def wait_on(
    backend: TrainingBackend,
    policy: FollowPolicy,
    reporter: Reporter,
    none: NoRoom,
    *,
    ledger: Ledger,
    outcome: Outcome | None,
    since: datetime | None,
    now: datetime | None = None,
    alarms: Alarms | None = None,
) -> Waiting | RunEnd:
    """Return when to submit again, or the end of the run where a clock ran out; tell of the wait as it goes on.

    Args:
        backend: opened by the caller.
        policy: the run's, no ledger applied.
        reporter: who is told.
        none: what the submission said.
        ledger: what it was made with.
        outcome: of the attempt before; None for the first.
        since: when the wait began; None = now.
        now: the moment; None = the clock's.
        alarms: what the waiter has alerted so far; None where the reporter remembers that.
    """
    now = now or datetime.now(UTC)
    if since is None:
        reporter.note(f"no room for {none.ref.name}, waiting for it: {none.reason}", warning=True)
    if none.ref.uid:
        await _take_back(backend, none.ref, reporter)
    alarms = alarms or Alarms(policy.alerts, reporter)
    wait = _Wait(backend, policy, reporter, alarms, none, none.ledger or ledger, outcome, since or now, now)
    alarms.fire_long_queue(wait.status(), wait.seconds)
    due = min(((moment, clock) for moment, clock in wait.limits() if moment <= now), default=None)
    if due is not None:
        return await wait.end(OutcomeKind.FAILED, Phase.FAILED, expiry_failure(due[1], policy, wait.status()))
    await alarms.close()
    ahead = [moment for moment, _ in wait.limits()] + wait.lengths()
    return Waiting(wait.since, next_look(wait.since, now, *ahead), wait.ledger, outcome)


async def _take_back(backend: TrainingBackend, ref: JobRef, reporter: Reporter) -> None:
    """Remove a job that can't start for want of what finds no room: whoever ends a wait looks for no job."""
    status = await patiently(lambda: backend.status(ref), what=f"looking at {ref.name}", reporter=reporter)
    if status.running_at is None and status.phase is not Phase.RUNNING:
        await delete_run(backend, ref, reporter)


class RoomWait:
    """Waits in this process, for who follows a run to its end here.

    Args:
        backend: opened by the caller.
        policy: the run's, no ledger applied.
        reporter: who is told.
        stop_asked: done, with who asked, when the run shall end.
        clock: gives the moment now; sleeping goes by the event loop's own time.
    """

    def __init__(
        self,
        backend: TrainingBackend,
        policy: FollowPolicy,
        reporter: Reporter,
        *,
        stop_asked: asyncio.Future[str] | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._backend, self._policy, self._reporter = backend, policy, reporter
        self._stop_asked, self._now = stop_asked, clock

    async def until(
        self, make: Callable[[Outcome | None, Ledger], Awaitable[Step]], outcome: Outcome | None, ledger: Ledger
    ) -> Step | RunEnd:
        """Return the step that `make` makes once there is room, or how the run ended while there was none.

        Args:
            make: submits an attempt.
            outcome: of the attempt before; None for the first.
            ledger: what to submit it with at first.
        """
        alarms, since = Alarms(self._policy.alerts, self._reporter), None
        while True:
            try:
                step = await make(outcome, ledger)
            except NoRoom as none:
                found = await wait_on(
                    self._backend, self._policy, self._reporter, none,
                    ledger=ledger, outcome=outcome, since=since, now=self._now(), alarms=alarms,
                )  # fmt: skip
                if isinstance(found, RunEnd):
                    return found
                since, ledger = found.since, found.ledger
                if by := await self._pause((found.until - self._now()).total_seconds()):
                    return await self._stopped(found, none, alarms, by)
            else:
                return counted(step, self._policy, since, self._now())

    async def _pause(self, seconds: float) -> str | None:
        """Wait so long, or until somebody asks for a stop; return who."""
        if self._stop_asked is None:
            await asyncio.sleep(max(0.0, seconds))
            return None
        await asyncio.wait({self._stop_asked}, timeout=max(0.0, seconds))
        return self._stop_asked.result() if self._stop_asked.done() else None

    async def _stopped(self, found: Waiting, none: NoRoom, alarms: Alarms, by: str) -> RunEnd:
        wait = _Wait(
            self._backend, self._policy, self._reporter, alarms, none, found.ledger, found.outcome,
            found.since, self._now(),
        )  # fmt: skip
        summary = f"the run was stopped by {by} while it waited for room: {none.reason}"
        failure = Failure(category=FailureClass.STOPPED_BY_USER, summary=summary)
        return await wait.end(OutcomeKind.STOPPED, Phase.STOPPED, failure)


def counted(step: Step, policy: FollowPolicy, since: datetime | None, now: datetime | None = None) -> Step:
    """Return the step with the wait for room, where there was one, counted as time in the queue."""
    if since is None or step.adopted:
        return step
    waited = ((now or datetime.now(UTC)) - since).total_seconds()
    ledger = step.ledger.model_copy(
        update={
            "queued_before": step.ledger.queued_before + waited,
            "totals": step.ledger.totals.plus(Totals(queued_seconds=waited)),
        }
    )
    return replace(step, ledger=ledger, policy=ledger.applied(policy))
