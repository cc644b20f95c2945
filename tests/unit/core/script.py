"""What a scripted run does, in the event loop's own time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from siflow_provider.core.quota import Answer, QuotaReport, Shortage, Verdict
from siflow_provider.core.status import Event, Phase, ReplicaStatus
from siflow_provider.errors import BackendError, BackendUnavailable

START = datetime(2026, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """Return the moment that the loop's time stands for."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def moment(seconds: float) -> datetime:
    """Return the moment that many seconds after the loop began."""
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Line:
    """A line that a replica writes `at` seconds after the submission."""

    at: float
    text: str
    replica: str = "master-0"
    partial: bool = False
    remark: bool = False


@dataclass
class Script:
    """What one submission does.

    Attributes:
        phases: (seconds after the submission, fields of the snapshot from then on).
        lines: what replicas write.
        outages: (from, to) in seconds: neither watch, logs nor calls answer.
        log_outages: the same for logs alone.
        fault: what is said in an outage.
        watch_ends_every: the watch ends by itself after that many seconds.
        stacks: what `dump_stacks` gives.
        endless_logs: the log stream never ends.
        ignores_stop: `stop` is accepted and nothing happens.
    """

    phases: list[tuple[float, dict[str, Any]]]
    lines: list[Line] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    log_outages: list[tuple[float, float]] = field(default_factory=list)
    fault: BackendError = field(default_factory=lambda: BackendUnavailable("connection refused"))
    watch_ends_every: float | None = None
    stacks: dict[str, str] = field(default_factory=dict)
    endless_logs: bool = False
    ignores_stop: bool = False


def phases(*steps: tuple[float, Phase], **fields: Any) -> list[tuple[float, dict[str, Any]]]:
    """Return a timeline of bare phases; `fields` go to the last snapshot."""
    out: list[tuple[float, dict[str, Any]]] = [(at, {"phase": phase}) for at, phase in steps]
    out[-1][1].update(fields)
    return out


def room(*, now_: bool = True, ever: bool = True, queue: str = "main") -> QuotaReport:
    """Return a report; without room two GPUs are short."""
    short = (Shortage("gpu", 8, 2, "GPUs", queue),)
    available = Answer(Verdict.YES, "room now") if now_ else Answer(Verdict.NO, "the pool is full", short)
    possible = Answer(Verdict.YES, "fits an empty cluster") if ever else Answer(Verdict.NO, "no queue has that", short)
    return QuotaReport(
        queue,
        remaining=Answer(Verdict.UNKNOWN, ""),
        available=available,
        idle=Answer(Verdict.UNKNOWN, ""),
        ever=possible,
    )


def replica(name: str, phase: Phase, **fields: Any) -> ReplicaStatus:
    """Return one replica of a snapshot."""
    return ReplicaStatus(name=name, role=name.partition("-")[0], phase=phase, **fields)


def event(at: float, text: str, *, warning: bool = True) -> Event:
    """Return an event at that many seconds."""
    return Event(time=moment(at), text=text, warning=warning)
