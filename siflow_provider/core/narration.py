"""Turns snapshots into the few sentences that a person reads in the task log: what changed, once, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.core.status import Phase, QueuePlace, ReplicaStatus, Status

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.core.outcome import Reporter

__all__ = ["Narrator"]


class Narrator:
    """Notes what is new in each snapshot of one attempt.

    A warning is the most it says: whether something was an error is known at the end, and the outcome tells it.

    Args:
        reporter: who is told.
        told_until: events up to this moment were told by an earlier follower.
    """

    def __init__(self, reporter: Reporter, *, told_until: datetime | None = None) -> None:
        self._reporter = reporter
        self._told_until = told_until
        self._phase: Phase | None = None
        self._place = ""
        self._requeues = 0
        self._told: set[str] = set()
        self._answering = True

    def tell(self, status: Status) -> None:
        """Note what this snapshot changes."""
        if status.phase is Phase.UNKNOWN:
            self._tell_silence(status)
            return
        if not self._answering:
            self._answering = True
            self._reporter.note(f"the backend answers again: the run is {status.phase}")
        self._tell_events(status)
        self._tell_queue(status.queue)
        self._tell_phase(status)
        for replica in status.replicas:
            self._tell_replica(replica, status)

    def _tell_silence(self, status: Status) -> None:
        if self._answering:
            reason = f": {status.reason}" if status.reason else ""
            self._reporter.note(f"no answer about the run at the moment{reason}; still following it", warning=True)
        self._answering = False

    def _tell_events(self, status: Status) -> None:
        for event in status.events:
            if self._told_until is not None and event.time <= self._told_until:
                continue
            self._once(event.text, f"event: {event.text}", warning=event.warning)

    def _tell_queue(self, queue: QueuePlace | None) -> None:
        if queue is not None and queue.requeues > self._requeues:
            reason = f": {queue.reason}" if queue.reason else ""
            self._reporter.note(f"requeue {queue.requeues}{reason}")
            self._requeues = queue.requeues

    def _tell_phase(self, status: Status) -> None:
        place = _place_text(status)
        if status.phase is Phase.QUEUED:
            if (self._phase, self._place) != (status.phase, place):
                self._reporter.note(f"queued{place}")
        elif self._phase is not status.phase:
            self._told.add(status.reason)
            self._reporter.note(_phase_text(status))
        elif status.phase is Phase.STARTING and status.reason and not any(each.reason for each in status.replicas):
            self._once(status.reason, _phase_text(status))
        self._phase, self._place = status.phase, place

    def _tell_replica(self, replica: ReplicaStatus, status: Status) -> None:
        rank = "" if replica.rank is None else f" (rank {replica.rank})"
        if replica.phase is Phase.FAILED:
            code = "" if replica.exit_code is None else f" with exit code {replica.exit_code}"
            reason = f": {replica.reason}" if replica.reason else ""
            text = f"{replica.name}{rank} failed{code}{reason}"
            self._once(text, text, warning=True)
        elif replica.reason and status.phase is Phase.STARTING and replica.phase is not Phase.RUNNING:
            waits = "" if replica.reason.startswith("waits ") else "waits: "
            text = f"{replica.name}{rank} {waits}{replica.reason}"
            self._once(text, text)
        elif replica.reason and status.phase is Phase.RUNNING and replica.phase is Phase.RUNNING:
            text = f"{replica.name}{rank}: {replica.reason}"
            self._once(text, text)

    def _once(self, key: str, text: str, *, warning: bool = False) -> None:
        if key not in self._told:
            self._told.add(key)
            self._reporter.note(text, warning=warning)


def _place_text(status: Status) -> str:
    queue = status.queue
    if queue is None:
        return f": {status.reason}" if status.reason else ""
    told = queue.told(status.reason)
    mark = ":" if queue.position is None else ","
    return f" in {queue.queue}" + (f"{mark} {told}" if told else "")


def _phase_text(status: Status) -> str:
    if status.phase is Phase.RUNNING:
        count = len(status.replicas)
        return "running" if count == 0 else f"running: {count} replica{'' if count == 1 else 's'}"
    if status.phase is Phase.STOPPED and status.stopped_by:
        return f"stopped by {status.stopped_by}"
    return f"{status.phase}: {status.reason}" if status.reason else str(status.phase)
