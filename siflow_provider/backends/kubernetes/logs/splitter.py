r"""The bytes of one container's log, as the API server sends them, cut into lines.

Each line comes with its time stamp. The stamp stands where a record begins whose predecessor had ended; so what has
none at the head of a stream is the end of a line that began before `sinceTime`, and anywhere else it is the server's
own words (the kubelet writes its errors into the log). Neither is output of the container at this place.

source: k8s.io/cri-client v0.36 pkg/logs/logs.go; Kubernetes v1.36 pkg/kubelet/server/server.go
"""

from __future__ import annotations

from datetime import datetime, timedelta

from siflow_provider.backends.kubernetes.logs.position import Position, parse_stamp, stamp_order
from siflow_provider.core.pieces import MAX_LINE_BYTES, first_piece, settled
from siflow_provider.core.status import LogLine
from siflow_provider.core.veil import Veil

__all__ = ["MISSING", "LineSplitter"]

MISSING = "--- lines may be missing here: while it was not read, the container was restarted or its log rotated ---"
_STAMP_BYTES = 40
_ASTRAY, _ASTRAY_AT_FIRST = timedelta(seconds=1), timedelta(milliseconds=10)
"""Lines of stdout and stderr may stand in the wrong order by so much; at the head of an answer it is worth less doubt,
since there the wanted line is not to be expected behind a younger one."""


class LineSplitter:
    """Makes lines of one stream. Holds one unfinished line's worth of bytes, and a hidden value's length.

    Args:
        replica: whose lines they are.
        uid: the pod's.
        container: the container's name.
        after: the position behind which lines are wanted; what lies before it is read and dropped.
        label: put in front of each line's text.
        veil: over the run's hidden values.

    Attributes:
        words: what the server said about itself in the stream, "" for nothing.
    """

    def __init__(
        self,
        replica: str,
        uid: str,
        container: str,
        *,
        after: Position | None = None,
        label: str = "",
        veil: Veil = Veil(),  # noqa: B008 - frozen
    ) -> None:
        self.words = ""
        self._veil = veil
        self._replica, self._label = replica, label
        self._head = f"{uid} {container} "
        self._limit = MAX_LINE_BYTES - len(label.encode())
        self._after = after if after is not None and after.stamp else None
        self._rest = b""
        self._any = False
        # the line that is being read
        self._open = False
        self._stamp, self._count, self._offset = "", 0, 0
        self._time: datetime | None = None
        self._muted, self._drop = False, 0

    def feed(self, chunk: bytes) -> list[LogLine]:
        """Return the lines and pieces of lines that are whole now."""
        data = self._rest + chunk
        lines: list[LogLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._whole(data[start:end], lines)
            start = end + 1
        rest = data[start:]
        if len(rest) > self._limit + _STAMP_BYTES:
            rest = self._long(rest, lines)
        self._rest = rest
        return lines

    def finish(self, *, complete: bool) -> list[LogLine]:
        """Return what is left when the stream has ended.

        Args:
            complete: the container wrote nothing more: what has no line end is a line; else it is a piece.
        """
        rest, self._rest = self._rest, b""
        lines: list[LogLine] = []
        if not rest:
            return lines
        if not self._open and parse_stamp(_stamp_of(rest)) is None:
            self.words = rest.decode("utf-8", "replace")
        elif complete:
            self._whole(rest, lines)
        else:
            self._now(rest, lines)
        return lines

    def _whole(self, raw: bytes, lines: list[LogLine]) -> None:
        """Take a line of which all is there."""
        content = raw if self._open else self._begin(raw, lines)
        if content is None:
            return
        if self._drop:
            content = self._left(content)
        content = self._pieces(content, lines, whole=True)
        self._count, self._offset, self._open = self._count + 1, 0, False
        if not self._muted:
            self._emit(content.removesuffix(b"\r"), lines, partial=False)
        elif self._after is not None and self._is_behind(self._after):
            self._after = None

    def _long(self, raw: bytes, lines: list[LogLine]) -> bytes:
        """Take pieces of a line that goes on; return what is left of it."""
        content = raw if self._open else self._begin(raw, lines)
        self._open = True
        if content is None:  # the end of a line that began earlier; more of it may come
            self._stamp, self._muted, self._drop = "", True, 0
            return b""
        return self._pieces(self._left(content), lines, whole=False)

    def _now(self, raw: bytes, lines: list[LogLine]) -> None:
        """Take what there is of an unfinished line."""
        content = self._long(raw, lines)
        content = self._pieces(content[: settled(content, self._veil)], lines, whole=True)
        if content and not self._muted:
            self._offset += len(content)
            self._emit(content, lines, partial=True)

    def _begin(self, raw: bytes, lines: list[LogLine]) -> bytes | None:
        """Read the stamp of a line and decide whether it is wanted; return its text, None without a stamp."""
        stamp = _stamp_of(raw)
        time = parse_stamp(stamp)
        if time is None:
            return None
        if stamp != self._stamp:
            self._stamp, self._count = stamp, 0
        self._time, self._offset, self._muted, self._drop = time, 0, False, 0
        if self._after is not None:
            self._seek(self._after, lines)
        self._any = True
        return raw[len(stamp) + 1 :]

    def _seek(self, after: Position, lines: list[LogLine]) -> None:
        """Decide whether the line that begins is behind the wanted position."""
        if self._stamp == after.stamp:
            self._muted = self._count < after.lines
            if not self._muted:
                self._after, self._drop = None, after.offset
            return
        unread = after.lines == after.offset == 0
        now, wanted = stamp_order(self._stamp), stamp_order(after.stamp)
        astray = _ASTRAY if self._any else _ASTRAY_AT_FIRST
        self._muted = now < wanted or (not unread and now[0] <= wanted[0] + astray)
        if not self._muted:
            self._after = None
            if not unread:
                self._note(MISSING, lines)

    def _is_behind(self, after: Position) -> bool:
        return self._stamp == after.stamp and self._count == after.lines and not after.offset

    def _left(self, content: bytes) -> bytes:
        """Drop what an earlier reader had of the line."""
        size = min(self._drop, len(content))
        self._drop -= size
        self._offset += size
        return content[size:]

    def _pieces(self, content: bytes, lines: list[LogLine], *, whole: bool) -> bytes:
        while size := first_piece(content, self._limit, self._veil, whole=whole):
            self._offset += size
            if not self._muted:
                self._emit(content[:size], lines, partial=True)
            content = content[size:]
        return content

    def _emit(self, raw: bytes, lines: list[LogLine], *, partial: bool) -> None:
        lines.append(
            LogLine(
                self._replica,
                self._label + raw.decode("utf-8", "replace"),
                f"{self._head}{self._stamp} {self._count} {self._offset}",
                self._time,
                partial,
            )
        )

    def _note(self, text: str, lines: list[LogLine]) -> None:
        lines.append(LogLine(self._replica, text, f"{self._head}{self._stamp} 0 0", self._time, remark=True))


def _stamp_of(raw: bytes) -> str:
    return raw[: max(0, raw.find(b" ", 0, _STAMP_BYTES))].decode("ascii", "replace")
