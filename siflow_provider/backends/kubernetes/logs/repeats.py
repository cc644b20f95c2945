"""What Ray's submitter prints twice: when the program fails it announces the program's last lines, and prints them.

They stand right above already. Such a line is dropped only when it follows the announcement and is, in its place, the
very line from above. The announcement is held until then and carries the position behind what was dropped, so a reader
that goes on later does not meet the repeated lines again.

source: Ray 2.60 python/ray/dashboard/modules/job/cli.py (_log_job_status), job_supervisor.py, job_log_storage_client.py
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.core.status import LogLine

__all__ = ["RepeatFilter"]

_OWN = r"\S+ \S+\t[A-Z]+ \S+ -- "
"""How the command line of Ray begins its own lines when it does not write to a terminal."""
_ANNOUNCEMENT = re.compile(
    rf"({_OWN}Status message: Job entrypoint command failed with exit code -?\d+), "
    r"last available logs \(truncated to 20,000 chars\):"
)
_VERDICT = re.compile(rf"{_OWN}\x1b\[31m")
_REPEATED_LINES, _REPEATED_CHARACTERS = 10, 20_000
_VERDICT_LINES = 3


class RepeatFilter:
    """Passes on one container's lines, each once."""

    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=_REPEATED_LINES + _VERDICT_LINES)
        self._unfinished = ""
        self._held: LogLine | None = None
        self._short = ""
        self._expected: deque[str] = deque()

    def passed(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines that are to be shown now."""
        out: list[LogLine] = []
        for line in lines:
            if self._held is not None and self._is_repeat(line):
                self._held = replace(self._held, text=self._short, position=line.position)
                continue
            out += self.rest()
            found = None if line.partial else _ANNOUNCEMENT.fullmatch(line.text)
            if found is not None:
                self._held, self._short = line, f"{found[1]}; its last lines stand above."
                self._expected = self._announced()
            else:
                self._remember(line)
                out.append(line)
        return out

    def rest(self) -> list[LogLine]:
        """Return what is held back; called at the end of the log too."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def _announced(self) -> deque[str]:
        """Return the lines that Ray is about to print again, as it cuts them; an empty one ends them."""
        program = list(self._recent)
        while program and _VERDICT.match(program[-1]):
            program.pop()
        text = "".join(f"{line}\n" for line in program[-_REPEATED_LINES:])[-_REPEATED_CHARACTERS:]
        return deque(text.split("\n"))

    def _is_repeat(self, line: LogLine) -> bool:
        return not line.partial and bool(self._expected) and self._expected.popleft() == line.text

    def _remember(self, line: LogLine) -> None:
        self._unfinished += line.text
        if not line.partial:
            self._recent.append(self._unfinished)
            self._unfinished = ""
