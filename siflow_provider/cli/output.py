"""How the command speaks: rich tables on a terminal, plain text or JSON in a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, TextIO

from siflow_provider.core.status import Status
from siflow_provider.errors import Problem

__all__ = ["print_error", "print_json", "print_table", "problem_data", "silence", "status_data", "write"]


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

        table = Table(*columns, box=SIMPLE_HEAD)
        for row in rows:
            table.add_row(*map(str, row))
        Console().print(table)
        return
    write("".join("\t".join(map(str, line)) + "\n" for line in (columns, *rows)))


def write(text: str) -> bool:
    """Write to stdout at once; False, and no error, when nobody reads it any more (`ps | head -1`)."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        return False
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
