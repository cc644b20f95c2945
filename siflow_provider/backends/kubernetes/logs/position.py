"""How far a container's log was read: all that a reader in another process needs to go on without a gap or a repeat.

The server can be asked for lines since a second; within it the line is found by its own time stamp, of which the
kubelet keeps nanoseconds, and by how many lines with that very stamp were read. A position inside a long line counts
its bytes. The pod's uid tells a pod that was created again under the same name.

source: k8s.io/cri-client v0.36 pkg/logs/logs.go (time stamps, `sinceTime`)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["Position", "parse_stamp", "stamp_order"]

_MARGIN = timedelta(seconds=1)
"""stdout and stderr are written side by side: a line may stand behind one that is a little younger."""
_FIELDS = 5
_SHORTEST_STAMP = 20


@dataclass(frozen=True, slots=True)
class Position:
    """Behind which line of a pod's log a reader stands.

    Attributes:
        uid: the pod's.
        container: the container's name; "" when nothing of the pod was read.
        stamp: the line's time stamp, as the kubelet wrote it.
        lines: how many whole lines with this very stamp were read.
        offset: how many bytes of the next line were read; that line has this stamp too.

    Example:
        >>> str(Position("c0ffee", "pytorch", "2026-05-01T10:00:00.000000001Z", 1))
        'c0ffee pytorch 2026-05-01T10:00:00.000000001Z 1 0'
    """

    uid: str
    container: str = ""
    stamp: str = ""
    lines: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.uid} {self.container} {self.stamp} {self.lines} {self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Return the position that `str` wrote; None for "" and for what some other backend wrote."""
        parts = text.split(" ")
        if len(parts) != _FIELDS or not (parts[3].isdecimal() and parts[4].isdecimal()):
            return None
        if parts[2] and parse_stamp(parts[2]) is None:
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), int(parts[4]))

    @property
    def since(self) -> str | None:
        """The `sinceTime` from which the log must be read to find this position; None for all of it."""
        moment = parse_stamp(self.stamp)
        if moment is None:
            return None
        return (moment.astimezone(UTC).replace(microsecond=0) - _MARGIN).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_stamp(text: str) -> datetime | None:
    """Return the moment of an RFC 3339 time stamp, to the microsecond; None for any other text."""
    if len(text) < _SHORTEST_STAMP or text[10] != "T":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def stamp_order(text: str) -> tuple[datetime, str]:
    """Return a key that orders time stamps to the nanosecond.

    Example:
        >>> stamp_order("2026-05-01T10:00:00.000000001Z") < stamp_order("2026-05-01T10:00:00.000000002Z")
        True
    """
    moment = parse_stamp(text)
    assert moment is not None
    digits = text[20:].rstrip("Z").split("+")[0].split("-")[0] if text[19] == "." else ""
    return moment.astimezone(UTC), digits.ljust(9, "0")
