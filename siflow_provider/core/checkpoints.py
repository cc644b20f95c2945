"""Keeps what a follower has come to know: now and then, and beside its work, which a slow store must not delay.

Nothing runs while nothing changes: ten thousand quiet followers of one process cost no wake-ups.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from siflow_provider.core.outcome import Reporter

__all__ = ["Checkpoints"]

T = TypeVar("T")
_LAST_SECONDS = 2.0


class Checkpoints(Generic[T]):
    """Hands the newest value to whoever keeps it.

    Args:
        what: in words, for a warning where it can't be kept.
        saved: the value that is kept already.
        newest: gives the value now.
        keep: keeps it.
        reporter: hears the warning.
        pause: seconds between two times; the last value is kept at the end, whenever the one before was.
    """

    def __init__(
        self,
        what: str,
        saved: T,
        newest: Callable[[], T],
        keep: Callable[[T], Awaitable[None]],
        reporter: Reporter,
        *,
        pause: float,
    ) -> None:
        self._what, self._saved, self._newest, self._keep = what, saved, newest, keep
        self._reporter, self._pause = reporter, pause
        self._moved = asyncio.Event()
        self._warned = False

    def move(self) -> None:
        """Say that the value may be another one."""
        self._moved.set()

    async def run(self) -> None:
        """Keep the value as often as is allowed, until cancelled."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            if await self._save():
                await asyncio.sleep(self._pause)

    async def close(self) -> None:
        """Keep what came since; a store that hangs is left behind."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self._save()
        except TimeoutError:
            self._reporter.note(f"{self._what} could not be remembered in time", warning=True)

    async def _save(self) -> bool:
        value = self._newest()
        if value == self._saved:
            return False
        try:
            await self._keep(value)
        except Exception as error:  # a store's trouble is no reason to lose a run
            if not self._warned:
                self._warned = True
                self._reporter.note(f"{self._what} can't be remembered: {error}", warning=True)
            return True
        self._saved = value
        return True
