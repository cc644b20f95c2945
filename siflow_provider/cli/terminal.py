"""The follower's reporter for a terminal: notes to stderr, the training's own lines to stdout with their replica."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO
from zoneinfo import ZoneInfo

from siflow_provider.cli.output import silence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siflow_provider.core.meter import Sizes
    from siflow_provider.core.outcome import AlertRule
    from siflow_provider.core.status import LogCursor, LogLine, Status
    from siflow_provider.core.veil import Veil

__all__ = ["TerminalReporter"]


class TerminalReporter:
    """Shows a run to a person.

    Args:
        veil: over the task's hidden values.
        timezone: IANA name, for the times of notes.

    Attributes:
        on_closed: called with the reason when a stream can't be written any more (`run FILE | head`).
    """

    def __init__(self, veil: Veil, *, timezone: str = "UTC") -> None:
        self._veil = veil
        self._zone = ZoneInfo(timezone)
        self.on_closed: Callable[[str], None] | None = None

    def line(self, line: LogLine) -> None:
        """Write one line of a replica, its name before it."""
        self._write(sys.stdout, f"[{line.replica}] {self._veil.over(line.text)}\n")

    def note(self, text: str, *, warning: bool = False) -> None:
        """Write what happens to the run itself."""
        moment = datetime.now(UTC).astimezone(self._zone).strftime("%H:%M:%S")
        self._write(sys.stderr, f"{moment} {'warning: ' if warning else ''}{self._veil.over(text)}\n")

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            silence(stream)
            if self.on_closed is not None:
                self.on_closed(error.strerror or str(error))

    @property
    def checkpoint_seconds(self) -> float:
        """Nothing is kept: seldom."""
        return 30.0

    async def checkpoint(self, cursor: LogCursor) -> None:
        """Keep nothing: a command that ends is not taken up by another."""

    async def sizes(self, sizes: Sizes) -> None:
        """Keep nothing: nobody follows the run after this process."""

    async def links(self, links: Mapping[str, str]) -> None:
        """Keep nothing: `siflow-provider show` tells them as they are when it is asked."""

    async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        """Say that the alert is not sent: its channels are Airflow connections, and none is loaded here."""
        self.note(f"alert {event} is not sent by this command (it would go to {', '.join(rule.connections)})")
