"""Trying a call again after a passing fault: not for ever, not in step with others, and not before the server says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay
from tenacity.wait import wait_base

from siflow_provider.backends.kubernetes.cluster.errors import QuotaExceeded, Unavailable
from siflow_provider.backends.kubernetes.cluster.pace import Pace

__all__ = ["tried"]

T = TypeVar("T")


async def tried(once: Callable[[], Awaitable[T]], pace: Pace) -> T:
    """Return what `once` returns, calling it again after passing faults until `Pace.tries` seconds are over.

    A wait that would end later than that is not begun; the error tells what the server asked.
    """
    tries = AsyncRetrying(
        retry=retry_if_exception(_is_passing), stop=stop_before_delay(pace.tries), wait=_Wait(pace),
        sleep=pace.sleep, reraise=True,
    )  # fmt: skip
    return await tries(once)


class _Wait(wait_base):
    """As long as the server asked, else longer each time."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return self._pace.wait_before(retry_state.attempt_number, error)


def _is_passing(error: BaseException) -> bool:
    # a ResourceQuota has room again when other jobs end: that may take hours, and whoever submits waits for it
    return isinstance(error, Unavailable) and not isinstance(error, QuotaExceeded)
