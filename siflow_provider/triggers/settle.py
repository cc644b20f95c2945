"""How long a trigger holds its event back, so that Airflow does not mix up two legs of a task.

Airflow's scheduler fails a task that is queued for its next leg while the executor has not yet reported the end of the
leg that deferred (source: apache/airflow#66374; Airflow 3.3.2 `airflow/jobs/scheduler_job_runner.py`,
process_executor_events). How long that takes can't be asked; a busy Airflow shows in how long the trigger waited.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

__all__ = ["settling_moment", "until_settled"]

_SHORTEST, _LONGEST = timedelta(seconds=6), timedelta(seconds=30)
"""Three seconds were too few for a scheduler that shares two cores with eight workers and forty short jobs."""


def settling_moment(deferred_at: datetime | None, started_at: datetime) -> datetime:
    """Return before when no event may be fired.

    Args:
        deferred_at: when the worker deferred; None where that is not known.
        started_at: when the trigger started.
    """
    if deferred_at is None:
        return started_at
    waited = max(timedelta(), started_at - deferred_at)
    return deferred_at + min(max(3 * waited, _SHORTEST), _LONGEST)


async def until_settled(deferred_at: datetime | str | None, started_at: datetime) -> None:
    """Wait until an event may be fired; `deferred_at` may be text as well: ISO 8601, "" where it is not known."""
    if isinstance(deferred_at, str):
        deferred_at = datetime.fromisoformat(deferred_at) if deferred_at else None
    left = settling_moment(deferred_at, started_at) - datetime.now(UTC)
    await asyncio.sleep(max(0.0, left.total_seconds()))
