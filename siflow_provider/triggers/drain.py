"""Waits for Airflow to write a trigger's lines, so that none is lost at the end and a flood stops no other trigger.

A triggerer hands lines to its supervising process through a socket, of which that reads four KiB at a time; a trigger
that ends is forgotten at once, with the lines that still wait in the socket, and one that floods it stops the event
loop of all (source: Airflow 3.3.2 `airflow/jobs/triggerer_job_runner.py`, `sdk/execution_time/supervisor.py`). The
file that the lines end up in lies on the triggerer's own machine: it tells how far they have come.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from siflow_provider.core.pump import closing_stream
from siflow_provider.triggers.shown import fresh_logs, log_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection

__all__ = ["LogDrain", "PacedBackend"]

WINDOW = 400
"""Lines of usual length that may be on their way: what the socket takes without blocking."""
WINDOW_BYTES = 64 * 1024
"""Characters after which all lines must have arrived, whatever their number."""
SILENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.05
_FIND_SECONDS = 2.0


class LogDrain:
    """How much of what this trigger wrote has reached its log file.

    Args:
        instance: the task instance; where its log can't be found, nothing is ever waited for.
    """

    def __init__(self, instance: Any) -> None:
        self._instance = instance
        self._path: Path | None = None
        self._offset = 0
        self._lines = 0
        self._tail = b""
        self._stuck = False

    async def find(self) -> None:
        """Look for the file; to be called once the first line was written."""
        deadline, pause = time.monotonic() + _FIND_SECONDS, _PAUSE_SECONDS
        place = await asyncio.to_thread(log_path, self._instance)
        while place is not None and self._path is None and time.monotonic() < deadline:
            files = await asyncio.to_thread(fresh_logs, place)
            self._path = files[-1] if files else None
            await asyncio.sleep(pause)
            pause *= 2  # hundreds may look at once

    async def until_written(self, last: str) -> bool:
        """Wait until `last`, the last line written, is in the file; False when the file does not grow any more."""
        return await self._until(lambda: last.encode() in self._tail)

    async def until_room(self, written: int) -> bool:
        """Wait until no more than `WINDOW` of the lines `written` so far are still on their way; False as above.

        Has it waited in vain once, it does not again before the file has grown: the run is not held up for ever.
        """
        if self._stuck and not await asyncio.to_thread(self._read):
            return False
        there = await self._until(lambda: self._lines >= written - WINDOW)
        self._stuck = not there
        return there

    async def _until(self, reached: Callable[[], bool]) -> bool:
        grown_at = time.monotonic()
        while self._path is not None:
            if await asyncio.to_thread(self._read):
                grown_at = time.monotonic()
            if reached():
                return True
            if time.monotonic() - grown_at > SILENCE_SECONDS:
                return False
            await asyncio.sleep(_PAUSE_SECONDS)
        return False

    def _read(self) -> bool:
        if self._path is None:
            return False
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except OSError:
            self._path = None
            return False
        self._offset += len(new)
        self._lines += new.count(b"\n")
        self._tail = (self._tail + new)[-4096:]
        return bool(new)


class PacedBackend:
    """A backend whose log lines come no faster than Airflow takes them up.

    Args:
        backend: does all else.
        drain: knows how far the lines have come.
        written: says how many lines were written so far.
    """

    def __init__(self, backend: Backend, drain: LogDrain, written: Callable[[], int]) -> None:
        self._backend, self._drain, self._written = backend, drain, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        """Yield the backend's lines, with a pause where too many are on their way."""
        checked, size = 0, 0
        async with closing_stream(self._backend.logs(ref, selection, cursor, follow=follow)) as stream:
            async for line in stream:
                yield line
                size += len(line.text)
                if size >= WINDOW_BYTES:
                    size = 0
                    await self._drain.until_room(self._written() + WINDOW)  # long lines: until all have arrived
                elif self._written() - checked >= WINDOW // 4:
                    checked = self._written()
                    await self._drain.until_room(checked)
