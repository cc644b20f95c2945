"""Whether a failed attempt is followed by another, and when. Pure, so that it is tested in tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.core.outcome import FollowPolicy
    from siflow_provider.core.status import Failure

__all__ = ["attempts_allowed", "backoff_seconds", "is_retried", "retries_used"]

_LONGEST_BACKOFF = 300.0


def backoff_seconds(failures: int, *, longest: float = _LONGEST_BACKOFF) -> float:
    """Return how long to wait after the n-th failure in a row: 1 s, doubling to `longest` (5 min).

    Example:
        >>> [backoff_seconds(n) for n in (1, 2, 3, 20)]
        [1.0, 2.0, 4.0, 300.0]
    """
    return min(longest, 2.0 ** min(failures - 1, 32))


def retries_used(policy: FollowPolicy, attempt: int) -> int:
    """Return how many of the allowed retries `attempt` has cost; a move to another instance costs none."""
    return max(0, attempt - 1 - policy.moves)


def attempts_allowed(policy: FollowPolicy) -> int:
    """Return the number of the last attempt there can be: the 4 of `attempt 2 of 4`."""
    return 1 + policy.max_retries + policy.moves


def is_retried(policy: FollowPolicy, failure: Failure, attempt: int, now: datetime) -> bool:
    """Say whether another attempt follows this failure.

    With `retry_on` only the named classes are retried, whatever they are; without it only failures that the same task
    could survive unchanged. No retry starts when its back-off would end behind the deadline.
    """
    used = retries_used(policy, attempt)
    if used >= policy.max_retries:
        return False
    if policy.deadline is not None and now + timedelta(seconds=backoff_seconds(used + 1)) >= policy.deadline:
        return False
    if policy.retry_on is None:
        return failure.transient
    return str(failure.category) in policy.retry_on
