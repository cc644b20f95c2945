r"""Reading the replicas' log files: by byte offset, in bounded pieces, to the last byte of an ended run.

A position is the number of bytes read, as text, so that a reader may stop and go on anywhere, in another process. Bytes
that are no UTF-8 are replaced; a character that is not yet written in full is waited for. A line of more than 16 KiB
comes in pieces of at most 16 KiB, cut between characters, each but the last with `partial` set: put together they are
the line. Only `\n` ends a line; a `\r` before it is dropped, one inside it (progress bars) stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from siflow_provider.core.status import LogLine

__all__ = ["MAX_LINE_BYTES", "LogFile", "follow_files"]

MAX_LINE_BYTES = 16 * 1024
_READ_BYTES = 64 * 1024
_POLL_SECONDS = 0.2
_CONTINUATION, _LEAD = 0x80, 0xC0


@dataclass(slots=True)
class LogFile:
    """One replica's log and how far it has been read. Holds at most one read's worth of bytes."""

    replica: str
    path: Path
    offset: int = 0
    _rest: bytes = field(default=b"", repr=False)

    def read(self, *, ended: bool) -> list[LogLine]:
        """Return the next lines, [] when there are none now; with `ended` also a last line without its line end."""
        while True:
            try:
                with self.path.open("rb") as file:
                    file.seek(self.offset + len(self._rest))
                    chunk = file.read(_READ_BYTES)
            except FileNotFoundError:
                return []
            self._rest += chunk
            lines = []
            while (piece := self._cut(last=ended and not chunk)) is not None:
                lines.append(piece)
            if lines or not chunk:
                return lines

    def _cut(self, *, last: bool) -> LogLine | None:
        """Take one line, or one piece of a long one, from what was read."""
        end = self._rest.find(b"\n", 0, MAX_LINE_BYTES + 1)
        if end >= 0:
            return self._take(end, end + 1, partial=False)
        if len(self._rest) > MAX_LINE_BYTES:
            size = _whole_characters(self._rest, MAX_LINE_BYTES)
            return self._take(size, size, partial=True)
        if last and self._rest:
            return self._take(len(self._rest), len(self._rest), partial=False)
        return None

    def _take(self, size: int, consumed: int, *, partial: bool) -> LogLine:
        raw, self._rest = self._rest[:size], self._rest[consumed:]
        self.offset += consumed
        if not partial:
            raw = raw.removesuffix(b"\r")
        text = raw.decode("utf-8", "replace")
        return LogLine(replica=self.replica, text=text, position=str(self.offset), partial=partial)


async def follow_files(
    files: list[LogFile], ended: Callable[[], Awaitable[bool]], *, follow: bool
) -> AsyncIterator[LogLine]:
    """Yield the lines of all files as they come; end when `ended` says so and all is read.

    `ended` is asked before the files are read: what an ended run wrote is in them by then.
    """
    while True:
        over = not follow or await ended()
        found = False
        for file in files:
            lines = await asyncio.to_thread(file.read, ended=over)
            for line in lines:
                found = True
                yield line
        if found:
            continue
        if over:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _whole_characters(data: bytes, size: int) -> int:
    """Return `size`, or up to three bytes less so that no UTF-8 character is cut."""
    for back in range(4):
        if data[size - back] & _LEAD != _CONTINUATION:
            return size - back
    return size
