"""How the command speaks: rich tables on a terminal, plain text or JSON in a pipe."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from siflow_provider.core.status import Status
from siflow_provider.errors import Problem, UsageError

__all__ = [
    "prepare_streams",
    "print_error",
    "print_json",
    "print_table",
    "problem_data",
    "silence",
    "status_data",
    "write",
]

_BREAKS = re.compile(r"[\t\r\n]+")


def prepare_streams() -> None:
    """Make every text writable.

    To a stream that the caller closed (`>&-`) it goes nowhere, and a character that the stream's encoding does not
    have, or that is none (of a file's name that is no UTF-8), is written as its escape.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # gets the number that was closed, so that nothing that is opened later takes the place of the stream
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays open
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_error(message: str) -> None:
    """Write a message for the user to stderr."""
    sys.stderr.write(f"error: {message}\n")


def print_json(value: object) -> None:
    """Write JSON for a program to stdout."""
    write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows: a rich table on a terminal, tab-separated lines with a header in a pipe."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, box=SIMPLE_HEAD)
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in row))  # no markup: `[...]` is often part of a reason
        Console().print(table)
        return
    write("".join("\t".join(_BREAKS.sub(" ", str(cell)) for cell in line) + "\n" for line in (columns, *rows)))


def write(text: str) -> bool:
    """Write to stdout at once; False, and no error, when nobody reads it any more (`ps | head -1`).

    Raises:
        UsageError: it can't be written, such as to a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        return False
    except OSError as error:
        silence(sys.stdout)
        raise UsageError(
            f"the output can't be written: {error.strerror}.", hint="Lead it elsewhere, or free some space."
        ) from None
    return True


def silence(stream: TextIO) -> None:
    """Lead a stream that nobody reads any more to nowhere, so that neither we nor the interpreter fail on it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def problem_data(problem: Problem) -> dict[str, Any]:
    """Return a problem as `check --json` shows it; line and column only where they are known."""
    return {name: value for name, value in asdict(problem).items() if value is not None}


def status_data(status: Status, now: datetime) -> dict[str, Any]:
    """Return a status as `ps --json` and `show --json` print it: seconds, hours and ISO moments in UTC.

    Hidden values in what the run and the backend said are masked.
    """
    data = {
        "name": status.ref.name,
        "kind": status.ref.kind,
        "phase": str(status.phase),
        "reason": status.reason,
        "owner": status.owner,
        "attempt": status.ref.attempt,
        "uid": status.ref.uid,
        "task_uuid": status.ref.task_uuid,
        "queue": asdict(status.queue) if status.queue else None,
        "replicas": [asdict(replica) for replica in status.replicas],
        "submitted_at": _moment(status.submitted_at),
        "admitted_at": _moment(status.admitted_at),
        "running_at": _moment(status.running_at),
        "ended_at": _moment(status.ended_at),
        "queued_seconds": round(status.queued_seconds, 3),
        "running_seconds": round(status.running_seconds(now), 3),
        "gpu_hours": round(status.running_seconds(now) * status.gpus / 3600, 6),
        "stopped_by": status.stopped_by,
        "events": [
            {"time": _moment(event.time), "text": event.text, "warning": event.warning} for event in status.events
        ],
        "failure": status.failure.model_dump(mode="json") if status.failure else None,
        "links": status.links,
    }
    masked: dict[str, Any] = status.veil.over_json(data)
    return masked


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
