"""Lines read in the background, to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from siflow_provider.core.status import LogLine


class Reading:
    """Lines as they come.

    Attributes:
        lines: those that came.
    """

    def __init__(self, stream: AsyncGenerator[LogLine, None]) -> None:
        self.lines: list[LogLine] = []
        self._stream = stream
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async with aclosing(self._stream) as stream:
            async for line in stream:
                self.lines.append(line)
                async with self._news:
                    self._news.notify_all()

    async def until(self, count: int) -> None:
        """Wait for so many lines."""
        async with asyncio.timeout(30), self._news:
            await self._news.wait_for(lambda: len(self.lines) >= count)

    async def end(self) -> list[LogLine]:
        """Return all lines once there are no more."""
        async with asyncio.timeout(30):
            await self._task
        return self.lines
