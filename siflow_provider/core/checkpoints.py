"""Remembers how far lines were shown: now and then, and beside the reading, which a slow store must not delay.

Nothing runs while no line comes: ten thousand quiet followers of one process cost no wake-ups.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.status import LogCursor

__all__ = ["Checkpoints"]

_LAST_SECONDS = 2.0


class Checkpoints:
    """Hands the newest cursor to the reporter.

    Args:
        reporter: who keeps it.
        cursor: where the lines begin.
        newest: gives the place behind the last line that was shown.
    """

    def __init__(self, reporter: Reporter, cursor: LogCursor, newest: Callable[[], LogCursor]) -> None:
        self._reporter = reporter
        self._newest, self._saved = newest, cursor
        self._moved = asyncio.Event()
        self._warned = False

    def move(self) -> None:
        """Say that another line was shown."""
        self._moved.set()

    async def run(self) -> None:
        """Save as often as the reporter likes, until cancelled."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            await self._save()
            await asyncio.sleep(self._reporter.checkpoint_seconds)

    async def close(self) -> None:
        """Save what was shown since; a store that hangs is left behind."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self._save()
        except TimeoutError:
            self._reporter.note("the place in the logs could not be remembered in time", warning=True)

    async def _save(self) -> None:
        cursor = self._newest()
        if cursor == self._saved:
            return
        try:
            await self._reporter.checkpoint(cursor)
        except Exception as error:  # a store's trouble is no reason to lose a run
            if not self._warned:
                self._warned = True
                self._reporter.note(f"the place in the logs can't be remembered: {error}", warning=True)
            return
        self._saved = cursor
