"""What following a run needs to know, whom it tells, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.status import Failure, JobRef, LogCursor, LogLine, LogSelection, Phase, Status

if TYPE_CHECKING:
    from siflow_provider.core.meter import Sizes

__all__ = ["AlertRule", "FollowPolicy", "Outcome", "OutcomeKind", "Reporter", "RunEnd", "Totals"]


class AlertRule(Frozen):
    """One entry of the form's `alerts`, channels already turned into connection ids.

    Attributes:
        events: event name -> seconds, 0 for all but `queued_too_long`.
        connections: Airflow connection ids.
        message: the author's own text; None = a text made from the event.
    """

    events: dict[str, float]
    connections: tuple[str, ...]
    message: str | None = None


class FollowPolicy(Frozen):
    """All that `follow` needs beside the ref. Goes through Airflow's database: small, and no secret.

    Attributes:
        own: False for somebody else's run, which is watched and nothing else: no clock ends it, and nothing of it is
            stopped, removed or tidied up, however it ends.
        logs: whose lines to report.
        deadline: when the whole try must be over; None = no limit.
        queue_timeout, start_timeout, hang_timeout: seconds; None = no limit.
        image_pull_retries: failed pulls allowed; -1 = any number; None = the backend's own way.
        max_retries: resubmissions allowed within the try.
        retry_on: failure classes to retry; None = transient failures.
        alerts: whom to tell about what.
        timezone: IANA name, for times shown to people.
        fallback_after: seconds in the queue after which `move` is returned; None when no other instance is listed.
        moves: earlier submissions of this run that ended by a move to another instance; they cost no retry.
        queued_before: seconds in the queue before those moves; they count for `queue_timeout`.
        told_until: events up to this moment have been noted by an earlier follower.
    """

    own: bool = True
    logs: LogSelection = "master"
    deadline: datetime | None = None
    queue_timeout: float | None = None
    start_timeout: float | None = None
    hang_timeout: float | None = None
    image_pull_retries: int | None = None
    max_retries: int = 0
    retry_on: tuple[str, ...] | None = None
    alerts: tuple[AlertRule, ...] = ()
    timezone: str = "UTC"
    fallback_after: float | None = None
    moves: int = 0
    queued_before: float = 0.0
    told_until: datetime | None = None


class Totals(Frozen):
    """What all attempts of a run took together: seconds in the queue, seconds admitted, GPU-seconds."""

    queued_seconds: float = 0.0
    running_seconds: float = 0.0
    gpu_seconds: float = 0.0

    @classmethod
    def of(cls, status: Status, now: datetime) -> Totals:
        """Return what one attempt took up to its end or `now`."""
        running = status.running_seconds(now)
        return cls(queued_seconds=status.queued_seconds, running_seconds=running, gpu_seconds=running * status.gpus)

    def plus(self, other: Totals) -> Totals:
        """Return the sum of both."""
        return Totals(
            queued_seconds=self.queued_seconds + other.queued_seconds,
            running_seconds=self.running_seconds + other.running_seconds,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
        )


class OutcomeKind(StrEnum):
    """How following one attempt ended. `retry` and `move` ask the holder of the task for the next attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    RETRY = "retry"
    MOVE = "move"


class Outcome(Frozen):
    """The one result of `follow`.

    Attributes:
        phase: the attempt's last phase.
        failure: set for everything but `succeeded` and `move`.
        results: what the training reported (`SIFLOW_RESULTS`), a JSON value.
        totals: what this attempt took.
        cursor: how far the logs were read.
    """

    kind: OutcomeKind
    ref: JobRef
    phase: Phase
    failure: Failure | None = None
    results: Any = None
    totals: Totals = Totals()
    cursor: LogCursor = LogCursor()

    @property
    def final(self) -> bool:
        """True when no further attempt follows."""
        return self.kind not in {OutcomeKind.RETRY, OutcomeKind.MOVE}

    def summary(self, *, before: Totals = Totals()) -> dict[str, Any]:  # noqa: B008 - frozen
        """Return what the operator pushes as `return_value`; `before` is what earlier attempts took."""
        total = before.plus(self.totals)
        out: dict[str, Any] = {
            "name": self.ref.name,
            "uid": self.ref.uid,
            "phase": str(self.phase),
            "attempts": self.ref.attempt,
            "queued_seconds": round(total.queued_seconds, 3),
            "running_seconds": round(total.running_seconds, 3),
            "gpu_hours": round(total.gpu_seconds / 3600, 6),
        }
        if self.failure is not None:
            out["failure"] = self.failure.model_dump(mode="json")
        if self.results is not None:
            out["results"] = self.results
        return out


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    Attributes:
        outcome: of its last attempt; never `retry` or `move`.
        totals: what the attempts before it took.
    """

    outcome: Outcome
    totals: Totals

    def summary(self) -> dict[str, Any]:
        """Return what the operator pushes as `return_value`."""
        return self.outcome.summary(before=self.totals)


class Reporter(Protocol):
    """Whom a follower tells: the Airflow task log, a terminal, a test. Methods must not block the event loop."""

    @property
    def checkpoint_seconds(self) -> float:
        """Seconds between two checkpoints at least; the last place is always told, when the follower ends."""
        ...

    def line(self, line: LogLine) -> None:
        """Show one line of a replica."""
        ...

    def note(self, text: str, *, warning: bool = False) -> None:
        """Show something about the run itself: a new phase, a queue position, an event."""
        ...

    async def checkpoint(self, cursor: LogCursor) -> None:
        """Remember how far the lines were shown, for a follower that starts anew."""
        ...

    async def sizes(self, sizes: Sizes) -> None:
        """Remember how many GPUs the run held when, for a follower that starts anew."""
        ...

    async def links(self, links: Mapping[str, str]) -> None:
        """Show where the run can be looked at, name -> URL; what was shown before counts no more."""
        ...

    async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        """Tell the rule's connections about one event of one attempt, once, whatever restarts. Never raises."""
        ...
