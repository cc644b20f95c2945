"""Shows a DAG run on the terminal while it goes on: each task's phase, and what it logs, as it comes."""

from __future__ import annotations

import time
from typing import Any

from scripts.airflow_stack import Run, TaskInstance, wait_until
from scripts.airflow_stack.run import render_event

__all__ = ["Progress"]

_LOOK_SECONDS = 0.5
"""Each look costs the API server some hundredths of a second of the cores that the training runs on."""
_ENDED_TASK = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_ACTIVE_TASK = frozenset({"scheduled", "queued", "running", "deferred"})
_SHOWN_LOGGERS = ("task.stdout", "siflow_provider")
_LEVELS = {"warning": "warning: ", "error": "error: ", "critical": "error: "}


class Progress:
    """Prints a run's progress, one line an event: seconds since the start, task, what happened.

    Args:
        run: the DAG run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begin = time.monotonic()
        self._states: dict[str, str] = {}
        self._shown: dict[str, set[tuple[str, str]]] = {}

    def follow(self, timeout: float) -> str:
        """Print until the run has ended and return its state.

        Raises:
            StackError: it did not end within `timeout` seconds.
        """
        return wait_until(self._look, timeout=timeout, what=f"{self._run!r} has ended", pause=_LOOK_SECONDS)

    def _look(self) -> str | None:
        rows = self._run.rows()
        for row in rows:
            self._show_task(row)
        if any(row["state"] in _ACTIVE_TASK for row in rows):
            return None
        state = self._run.state
        return state if state in ("success", "failed") else None

    def _show_task(self, row: dict[str, Any]) -> None:
        name = row["task_id"]
        before, state = self._states.get(name, "none"), str(row["state"] or "none")
        if before in _ENDED_TASK:
            return
        ended = state in _ENDED_TASK
        if state not in {before, "none"} and not ended:
            self._print(name, f"* {state}")
        if ended or state in ("running", "deferred"):
            self._show_log(self._run.ti(name), int(row["try_number"] or 1))
        if ended:
            self._print(name, f"* {state}")
        self._states[name] = state

    def _show_log(self, task: TaskInstance, try_number: int) -> None:
        shown = self._shown.setdefault(task.task_id, set())
        for event in task.events(try_number):
            key = (str(event.get("timestamp")), event["event"])
            if key not in shown:
                shown.add(key)
                if is_of_interest(event):
                    self._print(task.task_id, _LEVELS.get(str(event.get("level")), "") + render_event(event))

    def _print(self, task_id: str, text: str) -> None:
        for line in text.splitlines() or [""]:
            print(f"{time.monotonic() - self._begin:6.1f} s  {task_id:<10} {line}", flush=True)


def is_of_interest(event: dict[str, Any]) -> bool:
    """Say whether a log message is the task's own or ours, and not Airflow's book-keeping around it."""
    logger = str(event.get("logger", ""))
    return any(ours in logger for ours in _SHOWN_LOGGERS) or event.get("level") in ("error", "critical")
