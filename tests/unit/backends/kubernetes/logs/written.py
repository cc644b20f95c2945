"""What a container wrote, and what the API server sends of it: the rules of the kubelet's log reader, in plain Python.

source: k8s.io/cri-client v0.36 pkg/logs/logs.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from siflow_provider.core.status import LogLine

BEGIN = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)


def stamp(nanoseconds: int) -> str:
    """Return the time stamp so long after the beginning, with as few digits as the kubelet writes."""
    seconds, rest = divmod(nanoseconds, 10**9)
    text = (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f".{rest:09}".rstrip("0") if rest else ""
    return f"{text}{digits}Z"


@dataclass(frozen=True)
class Record:
    """One line of the log file, or a piece of one: the container runtime cuts long lines, each piece with its time."""

    at: int
    content: bytes
    ends: bool = True


def sent(records: Iterable[Record], since: str | None) -> bytes:
    """Return what is sent of the file, with time stamps."""
    first = datetime.fromisoformat(since) if since is not None else None
    out, new = bytearray(), True
    for record in records:
        whole = BEGIN + timedelta(seconds=record.at // 10**9)
        if first is None or whole >= first:
            out += (stamp(record.at).encode() + b" " if new else b"") + record.content + (b"\n" if record.ends else b"")
        new = record.ends
    return bytes(out)


def joined(lines: Iterable[LogLine]) -> list[str]:
    """Return the lines with their pieces put together; a last one that goes on ends with an ellipsis."""
    out, unfinished = [], ""
    for line in lines:
        unfinished += line.text
        if not line.partial:
            out.append(unfinished)
            unfinished = ""
    return [*out, f"{unfinished}…"] if unfinished else out
