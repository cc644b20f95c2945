"""Rides out a backend that gives no answer for a while: back-off with jitter, and one warning."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from siflow_provider.core.recovery import backoff_seconds
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable, NoRoomYet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from siflow_provider.core.outcome import Reporter

__all__ = ["UNTIL_ALLOWED", "patiently", "pause_seconds"]

UNTIL_ALLOWED: tuple[type[BackendError], ...] = (BackendUnavailable, AccessDenied)
"""To ride out a refusal as well: a login that could do this before may get its rights back."""
_T = TypeVar("_T")
_LONGEST_PAUSE = 30.0


def pause_seconds(failures: int) -> float:
    """Return how long to wait after the n-th failure in a row: doubling to 30 s, with jitter so that no herd forms."""
    return backoff_seconds(failures, longest=_LONGEST_PAUSE) * random.uniform(0.5, 1.0)


async def patiently(
    call: Callable[[], Awaitable[_T]],
    *,
    what: str,
    reporter: Reporter,
    tries: int = 10,
    ride: type[BackendError] | tuple[type[BackendError], ...] = BackendUnavailable,
) -> _T:
    """Await `call()` until it answers; for calls that may be repeated without harm.

    Args:
        call: makes a new awaitable for each try.
        what: what is done, for the warning: "submitting bert-3f9c1a7".
        reporter: hears of the first failure, and of no other.
        tries: how often at most without an answer; ten are about three minutes.
        ride: after which errors to try again: `UNTIL_ALLOWED` = refusals too; `BackendError` = whatever it is.

    Raises:
        NoRoomYet: there is no room, which is waited for otherwise (`core.no_room`).
        BackendError: of the last try.
    """

    async def once() -> _T:  # tenacity awaits what it can see to be a coroutine function
        return await call()

    def warn(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            reporter.note(f"{what}: {_trouble(state.outcome.exception())}", warning=True)

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(ride) & retry_if_not_exception_type(NoRoomYet),
        wait=wait_random_exponential(multiplier=1, max=_LONGEST_PAUSE),
        stop=stop_after_attempt(tries),
        before_sleep=warn,
        reraise=True,
    )
    return await retrying(once)


def _trouble(error: BaseException | None) -> str:
    return f"{'no answer' if isinstance(error, BackendUnavailable) else 'refused'}, trying again ({error})"
