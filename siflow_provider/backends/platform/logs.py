"""Reading logs by the query that the connection spells (`api_overrides.logs`).

What is known of it: it takes the task's uuid, a limit and an order, and gives entries with `content`; null while there
is none (source: public uses of the vendor's SDK 0.3, `tasks.query_logs`). Its path is not known, so a connection
without the spelling reads no logs. In path and params `{uuid}`, `{pod}`, `{limit}`, `{offset}` and `{order}` are filled
in; without `{offset}` a log is read again from its beginning, without `{pod}` all replicas' lines count as the main
one's.

A position is `ENTRY.BYTE`: entries read in full, and bytes of the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.errors import NotFound, Refused
from siflow_provider.backends.platform.wire import read_moment
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.pieces import pieces as pieces_of
from siflow_provider.core.status import JobRef, LogLine, main_replica
from siflow_provider.core.veil import Veil
from siflow_provider.errors import AccessDenied, BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.platform.client import Client

__all__ = ["LogReader", "Reading", "lines_of"]

_LIMIT = 2000
"""Entries asked for at once; the number in public use."""


class LogReader:
    """Asks for log entries.

    Args:
        client: of the connection.
        spelling: `api_overrides.logs`; None when it is not known.
    """

    def __init__(self, client: Client, spelling: Mapping[str, Any] | None) -> None:
        self._client, self._spelling = client, spelling
        self._text = "" if spelling is None else f"{spelling['path']} {list(spelling.get('params', {}).values())}"

    @property
    def readable(self) -> bool:
        """False when this connection can't read logs."""
        return self._spelling is not None

    @property
    def by_pod(self) -> bool:
        """False when the query gives all replicas' lines together."""
        return "{pod}" in self._text

    async def entries(self, uuid: str, pod: str, start: int) -> list[dict[str, Any]]:
        """Return entries from number `start` on, oldest first; [] when there are none now."""
        if "{offset}" in self._text:
            return await self._query(uuid, pod, limit=_LIMIT, offset=start, order="asc")
        return (await self._query(uuid, pod, limit=start + _LIMIT, offset=0, order="asc"))[start:]

    async def last_lines(self, ref: JobRef, replica: str, pod: str, count: int, veil: Veil) -> list[str]:
        """Return a replica's last lines, oldest first; no hidden value is cut in them.

        Of a query without pods they are the run's, for its main replica only.
        """
        if not self.readable or (not self.by_pod and replica != main_replica(ref.kind)):
            return []
        if "{order}" not in self._text:
            return [line async for line in self._all_lines(ref.uid, pod)][-count:]
        entries = await self._query(ref.uid, pod, limit=count, offset=0, order="desc")
        return [line.text for entry in reversed(entries) for line in lines_of(replica, entry, 0, 0, veil)][-count:]

    async def _all_lines(self, uuid: str, pod: str) -> AsyncIterator[str]:
        start = 0
        while entries := await self.entries(uuid, pod, start):
            start += len(entries)
            for entry in entries:
                yield str(entry.get("content") or "")

    async def _query(self, uuid: str, pod: str, *, limit: int, offset: int, order: str) -> list[dict[str, Any]]:
        spelling = self._spelling or {}
        words = {"uuid": uuid, "pod": pod, "limit": limit, "offset": offset, "order": order}
        params = {name: str(value).format_map(words) for name, value in spelling.get("params", {}).items()}
        try:
            answer = await self._client.get(str(spelling["path"]).format_map(words), params)
        except NotFound:
            return []
        except (AccessDenied, Refused) as error:
            # the log service has answered 401 in outages, while tasks ran on: no run fails for its logs
            raise BackendUnavailable(str(error)) from error
        data = answer.data
        found = data.get("logs") if isinstance(data, dict) else data or answer.body.get("logs")
        entries = found if isinstance(found, list) else []
        return [entry for entry in entries if isinstance(entry, dict)]


def lines_of(replica: str, entry: Mapping[str, Any], number: int, start: int, veil: Veil) -> list[LogLine]:
    """Return an entry as a line, or as pieces of one (`core.pieces`), from byte `start` of it on.

    Args:
        replica: whose it is.
        entry: as the platform gives it.
        number: how many entries came before it.
        start: bytes of it that were read before.
        veil: over the run's hidden values.
    """
    raw = str(entry.get("content") or "").removesuffix("\n").removesuffix("\r").encode("utf-8", "replace")
    time = read_moment(entry.get("time") or entry.get("timestamp"))
    out: list[LogLine] = []
    *long, end = pieces_of(raw[start:], MAX_LINE_BYTES, veil)
    for piece in long:
        start += len(piece)
        out.append(LogLine(replica, piece.decode(), f"{number}.{start}", time, partial=True))
    return [*out, LogLine(replica, end.decode("utf-8", "replace"), f"{number + 1}.0", time)]


@dataclass(slots=True)
class Reading:
    """How far one replica's log has been read."""

    replica: str
    pod: str
    entry: int = 0
    byte: int = 0

    @classmethod
    def at(cls, replica: str, pod: str, position: str) -> Reading:
        """Start behind a position; "" is the beginning."""
        entry, _, byte = position.partition(".")
        return cls(replica, pod, int(entry or 0), int(byte or 0))

    async def more(self, reader: LogReader, uuid: str, veil: Veil) -> Sequence[LogLine]:
        """Return the next lines; () when there are none now."""
        lines: list[LogLine] = []
        for entry in await reader.entries(uuid, self.pod, self.entry):
            lines += lines_of(self.replica, entry, self.entry, self.byte, veil)
            self.entry, self.byte = self.entry + 1, 0
        return lines
