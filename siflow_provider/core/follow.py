"""The only loop that waits for a run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind, Reporter, Totals
from siflow_provider.core.status import JobRef, LogCursor, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.core.protocol import Backend

__all__ = ["follow", "utc_now"]


def utc_now() -> datetime:
    """Return the moment now, aware, in UTC."""
    return datetime.now(UTC)


async def follow(
    backend: Backend,
    ref: JobRef,
    policy: FollowPolicy,
    reporter: Reporter,
    *,
    cursor: LogCursor = LogCursor(),  # noqa: B008 - frozen
    clock: Callable[[], datetime] = utc_now,
) -> Outcome:
    """Follow one attempt to its end.

    Args:
        backend: opened by the caller.
        ref: the attempt.
        policy: clocks, logs, retries, alerts.
        reporter: who is told.
        cursor: how far an earlier follower had shown the logs.
        clock: gives the moment now.
    """
    async for status in backend.watch(ref):
        reporter.note(str(status.phase))
        if status.phase.terminal:
            break
    kind = OutcomeKind(str(status.phase)) if status.phase is not Phase.UNKNOWN else OutcomeKind.LOST
    return Outcome(kind=kind, ref=ref, phase=status.phase, failure=status.failure, totals=Totals.of(status, clock()))
