"""A submission that finds no room: the task waits for it deferred, and in no worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from siflow_provider.core.alarms import Alarms
from siflow_provider.core.clocks import Clock, expiry_failure
from siflow_provider.core.outcome import Outcome, OutcomeKind, Totals
from siflow_provider.core.run import RunEnd
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import NoRoomYet

if TYPE_CHECKING:
    from siflow_provider.core.attempts import Step
    from siflow_provider.core.protocol import Manifest, TrainingBackend
    from siflow_provider.operators.order import Order

__all__ = ["Impatient", "NoRoom", "Waiting", "counted", "next_look", "waiting"]

_SHORTEST, _LONGEST = timedelta(seconds=15), timedelta(minutes=2)


class NoRoom(Exception):
    """There is no room for this attempt now; no retry in this process is wanted.

    Attributes:
        ref: the attempt that would be; its uid is "".
        reason: the backend's own words.
    """

    def __init__(self, ref: JobRef, reason: str) -> None:
        super().__init__(reason)
        self.ref, self.reason = ref, reason


class Impatient:
    """A backend whose submission ends the leg where there is no room.

    Args:
        backend: does all the work.
    """

    def __init__(self, backend: TrainingBackend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def submit(self, manifest: Manifest) -> JobRef:
        """Submit; `NoRoom` in place of `NoRoomYet`."""
        try:
            return await self._backend.submit(manifest)
        except NoRoomYet as error:
            identity, kind = manifest.context.identity, manifest.task.task.kind
            ref = JobRef(
                backend=self._backend.name, kind=kind, name=manifest.name, uid="", task_uuid=identity.task_uuid,
                attempt=identity.attempt,
            )  # fmt: skip
            raise NoRoom(ref, str(error)) from error


@dataclass(frozen=True, slots=True)
class Waiting:
    """The leg's end: submit again at `until`.

    Attributes:
        since: when the wait for room began.
        until: when to look again.
        outcome: of the attempt before, which asks for this one; None for the first attempt.
    """

    since: datetime
    until: datetime
    outcome: Outcome | None


def next_look(since: datetime, now: datetime, *limits: datetime | None) -> datetime:
    """Return when to submit again: after half the time waited so far, 15 s to 2 minutes, and not behind a limit."""
    pause = min(max((now - since) / 2, _SHORTEST), _LONGEST)
    return min([now + pause, *(limit for limit in limits if limit is not None)])


async def waiting(order: Order, outcome: Outcome | None, none: NoRoom) -> Waiting | RunEnd:
    """Return when to submit again, or the end of the run where `queue_timeout` is over."""
    now = datetime.now(UTC)
    since = order.carried.waiting_since or now
    limit = order.policy.queue_timeout
    latest = None if limit is None else since + timedelta(seconds=limit)
    if latest is not None and now >= latest:
        return await _end_in_queue(order, none, since=since, now=now)
    if order.carried.waiting_since is None:
        order.reporter.note(f"no room for {none.ref.name}, waiting for it deferred: {none.reason}", warning=True)
    return Waiting(since, next_look(since, now, latest, order.policy.deadline), outcome)


async def _end_in_queue(order: Order, none: NoRoom, *, since: datetime, now: datetime) -> RunEnd:
    """Tell, and return, what a run tells whose `queue_timeout` ran out in its queue."""
    status = Status(none.ref, Phase.QUEUED, reason=none.reason, submitted_at=since)
    failure = expiry_failure(Clock.QUEUE, order.policy, status)
    waited = Totals(queued_seconds=(now - since).total_seconds())
    alarms = Alarms(order.policy.alerts, order.reporter)
    alarms.fire("failed", replace(status, phase=Phase.FAILED, failure=failure), failure.summary)
    await alarms.close()
    outcome = Outcome(kind=OutcomeKind.FAILED, ref=none.ref, phase=Phase.FAILED, failure=failure, totals=waited)
    return RunEnd(outcome, order.carried.ledger.totals)


def counted(step: Step, order: Order) -> Step:
    """Return the step with the wait for room counted as time in the queue."""
    since = order.carried.waiting_since
    if since is None or step.adopted:
        return step
    waited = (datetime.now(UTC) - since).total_seconds()
    ledger = step.ledger.model_copy(
        update={
            "queued_before": step.ledger.queued_before + waited,
            "totals": step.ledger.totals.plus(Totals(queued_seconds=waited)),
        }
    )
    return replace(step, ledger=ledger, policy=ledger.applied(order.policy))
