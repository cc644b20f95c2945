"""What a training reports at its end: one marked line of its own output (docs/reference/form.md).

The training prints `::siflow-result:: {json}` itself, or writes JSON to the file that `SIFLOW_RESULTS` names; then the
backend's wrapper prints the file as that line. Reading it from the log works on every backend, needs no side-car and
can't hang a run.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.core.status import LogLine

__all__ = ["MARKER", "MAX_RESULT_BYTES", "RESULTS_ENV", "ResultReader", "result_line"]

MARKER = "::siflow-result::"
"""How the line begins."""
RESULTS_ENV = "SIFLOW_RESULTS"
"""The variable that names the file."""
MAX_RESULT_BYTES = 256 * 1024
"""The longest JSON text that is taken, in bytes of UTF-8."""
_LINE_ENDS = re.compile(r"[\r\n]+")  # and no other: JSON text may hold U+2028 and its like as they are
_DEEPEST = 200  # nesting that a database's and Airflow's own JSON code can still walk


def result_line(content: str) -> str | None:
    r"""Return the marked line for a results file's content, or None when the file is empty.

    Line breaks inside JSON text are only layout, so the content is put on one line; whether it is JSON is for the
    reader to say, where the user sees the answer.

    Example:
        >>> result_line('{"accuracy":\n 0.97}')
        '::siflow-result:: {"accuracy": 0.97}'
    """
    text = " ".join(part.strip() for part in _LINE_ENDS.split(content)).strip()
    return f"{MARKER} {text}" if text else None


class ResultReader:
    """Finds results in the lines of one replica; the last complete one wins.

    Keeps no more than the size limit of an unfinished line. Nothing it meets ever fails the task: what is wrong comes
    back as a note for the user.

    Args:
        over: masks hidden values in what a note quotes: half of one can't be masked any more.
    """

    def __init__(self, over: Callable[[str], str] = str) -> None:
        self._over = over
        self.value: Any = None
        self.found = False
        self._parts: list[str] = []
        self._size = 0
        self._open = False
        self._inside = False  # a long line that is no result

    def feed(self, line: LogLine) -> str | None:
        """Read one line (or piece of one); return what to tell the user when a result can't be used."""
        if not self._open:
            inside, self._inside = self._inside, line.partial
            if inside or not line.text.startswith(MARKER):
                return None
            self._inside = False
            self._parts, self._size = [], 0
        text = line.text if self._open else line.text[len(MARKER) :]
        self._size += len(text.encode("utf-8", "replace"))
        if self._size <= MAX_RESULT_BYTES + 1:  # + 1: the blank behind the marker
            self._parts.append(text)
        self._open = line.partial
        return None if line.partial else self._finish()

    def _finish(self) -> str | None:
        if self._size > MAX_RESULT_BYTES + 1:
            self._parts = []
            return (
                f"the result is {self._size} bytes long; at most {MAX_RESULT_BYTES} (256 KiB) are kept, so it is left "
                "out. Report numbers here and write anything larger to a volume."
            )
        text = "".join(self._parts).strip()
        self._parts = []
        try:
            value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            return f"the result is not JSON ({error}), so it is left out. It begins with {self._over(text)[:80]!r}."
        if _depth(value) > _DEEPEST:
            return f"the result is nested more than {_DEEPEST} levels deep, so it is left out."
        self.value, self.found = value, True
        return None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null or a text")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # JSON has no word for it, so it could be read but never passed on
        raise ValueError(f"{text[:40]} is larger than a floating-point number can be")
    return number


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [item for part in level for item in _children(part)]
    return deepest


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
