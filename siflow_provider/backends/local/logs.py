r"""Reading the replicas' log files: by byte offset, in bounded pieces, to the last byte of an ended run.

A position is the number of bytes read, as text, so that a reader may stop and go on anywhere, in another process. Bytes
that are no UTF-8 are replaced; a character that is not yet written in full is waited for. Long lines come in pieces
(`core.pieces`). A `\r` before the line's end is dropped, one inside it (progress bars) stays.

A file that has become shorter is read from its beginning: `echo x > /dev/stderr` empties the file that stands there.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from siflow_provider.backends.local.off_loop import off_loop
from siflow_provider.backends.local.pace import Pace
from siflow_provider.core.pieces import MAX_LINE_BYTES, first_piece, lookahead, pieces, settled
from siflow_provider.core.status import LogLine
from siflow_provider.core.veil import Veil

__all__ = ["LogFile", "follow_files"]

_READ_BYTES = 64 * 1024


@dataclass(slots=True)
class LogFile:
    """One replica's log and how far it has been read. Holds one read's worth of bytes, and a hidden value's length."""

    replica: str
    path: Path
    offset: int = 0
    veil: Veil = field(default_factory=Veil)
    _rest: bytes = field(default=b"", repr=False)
    _told: bool = field(default=False, repr=False)

    def read(self, *, ended: bool, now: bool = False) -> list[LogLine]:
        """Return the next lines, [] when there are none now.

        Args:
            ended: nothing more will be written: a last line without its line end is a line.
            now: give what there is of an unfinished line too, as a piece (`partial`).
        """
        while True:
            try:
                with self.path.open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    if size < self.offset + len(self._rest) and (told := self._begin_again()):
                        return told
                    file.seek(self.offset + len(self._rest))
                    chunk = file.read(_READ_BYTES)
            except FileNotFoundError:
                return []
            lines = self._split(self._rest + chunk, last=(ended or now) and not chunk, ended=ended)
            if lines or not chunk:
                return lines

    def _begin_again(self) -> list[LogLine]:
        """Go to the beginning of a file that somebody emptied, and return what to tell of it, the first time."""
        told, self._told = self._told, True
        self.offset, self._rest = 0, b""
        text = (
            f"--- {self.replica}: the command emptied its own log, as `> /dev/stderr` does where `>&2` would not: "
            "lines before this may be missing ---"
        )
        return [] if told else [LogLine(self.replica, text, "0", remark=True)]

    def _split(self, data: bytes, *, last: bool, ended: bool) -> list[LogLine]:
        """Take all whole lines and all pieces of long ones; with `last` the unfinished rest as well."""
        lines, start = [], 0
        while (cut := self._cut(data, start)) is not None:
            size, consumed, partial = cut
            lines.append(self._line(data[start : start + size], consumed, partial=partial))
            start += consumed
        rest = data[start:]
        if last and rest:
            size = len(rest) if ended else settled(rest, self.veil)
            *long, end = pieces(rest[:size], MAX_LINE_BYTES, self.veil)
            lines += [self._line(piece, len(piece), partial=True) for piece in long]
            if end:
                lines.append(self._line(end, len(end), partial=not ended))
            rest = rest[size:]
        self._rest = rest
        return lines

    def _cut(self, data: bytes, start: int) -> tuple[int, int, bool] | None:
        """Return (size, bytes consumed, partial) of the line or piece at `start`; None when it is not all there."""
        stop = start + MAX_LINE_BYTES + lookahead(self.veil) + 1
        end = data.find(b"\n", start, stop)
        if 0 <= end <= start + MAX_LINE_BYTES:
            return end - start, end - start + 1, False
        content = data[start:end] if end >= 0 else data[start:stop]
        size = first_piece(content, MAX_LINE_BYTES, self.veil, whole=end >= 0)
        return (size, size, True) if size else None

    def _line(self, raw: bytes, consumed: int, *, partial: bool) -> LogLine:
        self.offset += consumed
        if not partial:
            raw = raw.removesuffix(b"\r")
        return LogLine(
            replica=self.replica, text=raw.decode("utf-8", "replace"), position=str(self.offset), partial=partial
        )


async def follow_files(
    files: list[LogFile], ended: Callable[[], Awaitable[bool]], *, follow: bool
) -> AsyncIterator[LogLine]:
    """Yield the lines of all files as they come; end when `ended` says so and all is read.

    `ended` is asked before the files are read: what an ended run wrote is in them by then.
    """
    pace, quiet = Pace(), False
    while True:
        over = await ended()
        found = False
        for file in files:
            lines = await off_loop(file.read, ended=over, now=not follow)
            for line in lines:
                found = True
                yield line
        if found:
            quiet = False
            continue
        if over or not follow:
            return
        await pace.rest(changed=not quiet)
        quiet = True
