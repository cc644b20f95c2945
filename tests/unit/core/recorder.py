"""A reporter that keeps what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from siflow_provider.core.meter import Sizes
from siflow_provider.core.outcome import AlertRule
from siflow_provider.core.status import LogCursor, LogLine, Status


class Recorder:
    """A reporter that keeps all it is told."""

    checkpoint_seconds = 1.0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.cursors: list[LogCursor] = []
        self.cursor_times: list[float] = []
        self.kept_sizes: list[Sizes] = []
        self.alerts: list[tuple[str, str]] = []
        self.shown_links: list[dict[str, str]] = []
        self.on_line: Callable[[LogLine], None] | None = None

    def line(self, line: LogLine) -> None:
        self.lines.append(f"{line.replica}: {line.text}")
        if self.on_line is not None:
            self.on_line(line)

    def note(self, text: str, *, warning: bool = False) -> None:
        (self.warnings if warning else self.notes).append(text)

    async def checkpoint(self, cursor: LogCursor) -> None:
        self.cursors.append(cursor)
        self.cursor_times.append(asyncio.get_running_loop().time())

    async def sizes(self, sizes: Sizes) -> None:
        self.kept_sizes.append(sizes)

    async def links(self, links: Mapping[str, str]) -> None:
        self.shown_links.append(dict(links))

    async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        self.alerts.append((event, text))
