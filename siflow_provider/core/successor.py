"""Whether another attempt follows one of somebody else's run, for who only watches it.

How many attempts its owner allows is not written on a run. What is known is which failures another attempt can cure,
and that an owner who wants one submits it soon.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from siflow_provider.core.endings import Ending, judge
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind
from siflow_provider.core.recovery import backoff_seconds
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import Status

__all__ = ["expected_until", "successor_of"]

_OWNER_SECONDS = 120.0
"""What an owner takes beside the pause before an attempt: an event, a worker's leg, the submission itself."""
_LOOK_SECONDS = 10.0


def expected_until(status: Status, now: datetime) -> datetime:
    """Return until when another attempt may be expected after one that ended; `now` when none is.

    Args:
        status: terminal.
        now: the moment now.
    """
    ending = judge(FollowPolicy(own=False), status, clock=None, now=now, last_lines=lambda _: ())
    if status.ended_at is None or not _may_go_on(ending):
        return now
    return max(now, status.ended_at + timedelta(seconds=_patience(status.ref.attempt)))


async def successor_of(backend: Backend, outcome: Outcome, reporter: Reporter) -> Status | None:
    """Return the newest attempt behind the one that just ended, None when it was the last.

    Waits for it where another attempt can cure the failure, and where the run is gone: an owner who moves a run to
    another instance deletes it first. A backend without an answer shows none.

    Args:
        backend: opened.
        outcome: how the attempt ended, without success.
        reporter: who is told of the wait.
    """
    ref, loop = outcome.ref, asyncio.get_running_loop()
    patience = _patience(ref.attempt) if _may_go_on(outcome) else 0.0
    until, told = loop.time() + patience, False
    while True:
        try:
            newest = await backend.find_latest(ref)
            if newest is not None and newest.attempt > ref.attempt:
                return await backend.status(newest)
            trouble = ""
        except BackendError as error:
            trouble = f" (no answer now: {error})"
        if loop.time() >= until:
            return None
        if not told:
            reporter.note(f"{ref.name} ended: looking {patience:g} s for another attempt by its owner{trouble}")
            told = True
        await asyncio.sleep(_LOOK_SECONDS)


def _may_go_on(end: Ending | Outcome) -> bool:
    cured = end.kind is OutcomeKind.FAILED and end.failure is not None and end.failure.transient
    return cured or end.kind is OutcomeKind.LOST


def _patience(attempt: int) -> float:
    return backoff_seconds(attempt) + _OWNER_SECONDS
