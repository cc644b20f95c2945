"""A DAG run and its task instances, as a test or the demo handles them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil

from scripts.airflow_stack.errors import StackError
from scripts.airflow_stack.rest import Rest, wait_until

__all__ = ["Run", "TaskInstance", "render_event"]

_ENDED_RUN = frozenset({"success", "failed"})
_ENDED_TASK = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def render_event(event: dict[str, Any]) -> str:
    """Return a log message as text, an exception that came with it as Python would print it, the cause first."""
    lines = []
    for error in reversed(event.get("error_detail") or []):
        lines += [f'  File "{one["filename"]}", line {one["lineno"]}, in {one["name"]}' for one in error["frames"]]
        lines += [f"{error['exc_type']}: {error['exc_value']}", *map(str, error.get("exc_notes") or [])]
    return "\n".join([str(event["event"]), *lines])


class Run:
    """One DAG run; every attribute asks the API server afresh.

    Example:
        >>> run = stack.trigger("train", conf={"epochs": 2})
        >>> assert run.wait(60) == "success"
        >>> run.ti("train").xcom()
    """

    def __init__(self, rest: Rest, dag_id: str, run_id: str) -> None:
        self._rest = rest
        self.dag_id = dag_id
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<Run {self.dag_id} {self.run_id}>"

    @property
    def path(self) -> str:
        """Its address below `/api/v2/`."""
        return f"dags/{self.dag_id}/dagRuns/{self.run_id}"

    @property
    def state(self) -> str:
        """`queued`, `running`, `success` or `failed`."""
        return str(self._rest.get(self.path)["state"])

    def wait(self, timeout: float = 120) -> str:
        """Wait for the end and return `success` or `failed`.

        Raises:
            StackError: not ended after `timeout` seconds; the text tells each task's state.
        """
        what = f"{self.dag_id} {self.run_id} ends"
        return wait_until(self._ended, timeout=timeout, what=what, describe=lambda: str(self.states()))

    def _ended(self) -> str | None:
        state = self.state
        return state if state in _ENDED_RUN else None

    def rows(self) -> list[dict[str, Any]]:
        """Return what the API tells of every task instance that exists by now, all by one request."""
        return list(self._rest.get(f"{self.path}/taskInstances", limit=200)["task_instances"])

    def tis(self) -> list[TaskInstance]:
        """Return every task instance that exists by now, mapped ones each by itself."""
        return [self.ti(one["task_id"], one["map_index"]) for one in self.rows()]

    def states(self) -> dict[str, str]:
        """Return state by `task_id` or, for mapped tasks, `task_id[map_index]`."""
        found = self.rows()
        names = {id(one): one["task_id"] + (f"[{one['map_index']}]" if one["map_index"] >= 0 else "") for one in found}
        return {names[id(one)]: str(one["state"]) for one in found}

    def ti(self, task_id: str, map_index: int = -1) -> TaskInstance:
        """Return one task instance, whether or not it exists yet."""
        return TaskInstance(self._rest, self, task_id, map_index)

    def mark(self, state: str) -> None:
        """Mark the whole run `failed`, `success` or `queued`, as the UI's buttons do."""
        self._rest.request("PATCH", self.path, json={"state": state})


class TaskInstance:
    """One task instance of a run; every attribute asks the API server afresh."""

    def __init__(self, rest: Rest, run: Run, task_id: str, map_index: int) -> None:
        self._rest = rest
        self.run = run
        self.task_id = task_id
        self.map_index = map_index

    def __repr__(self) -> str:
        return f"<TaskInstance {self.run.dag_id} {self.run.run_id} {self.task_id} {self.map_index}>"

    @property
    def path(self) -> str:
        """Its address below `/api/v2/`."""
        mapped = f"/{self.map_index}" if self.map_index >= 0 else ""
        return f"{self.run.path}/taskInstances/{self.task_id}{mapped}"

    @property
    def details(self) -> dict[str, Any]:
        """All that the API tells: state, try_number, start_date, end_date, pid, rendered_fields, trigger, ..."""
        return dict(self._rest.find(self.path) or {})

    @property
    def state(self) -> str:
        """`none` until the scheduler knows it, then Airflow's word: queued, running, deferred, success, failed, ..."""
        return str(self.details.get("state") or "none")

    @property
    def try_number(self) -> int:
        """The current try, counted from 1."""
        return int(self.details.get("try_number") or 0)

    @property
    def rendered(self) -> dict[str, Any]:
        """The rendered template fields as stored."""
        return dict(self.details.get("rendered_fields") or {})

    def wait_state(self, *states: str, timeout: float = 90) -> str:
        """Wait until the state is one of `states` and return it.

        Raises:
            StackError: not within `timeout` seconds, or the task ended in another state; the log's end is in the text.
        """

        def look() -> str | None:
            state = self.state
            if state in _ENDED_TASK and state not in states:
                raise StackError(f"{self!r} ended as {state}, not as {states}:\n{self._last_lines()}")
            return state if state in states else None

        return wait_until(look, timeout=timeout, what=f"{self!r} is {' or '.join(states)}", describe=self._last_lines)

    def wait_log(self, text: str, *, try_number: int | None = None, timeout: float = 60) -> str:
        """Wait until the log contains `text` and return the log."""

        def look() -> str | None:
            log = self.log(try_number)
            return log if text in log else None

        return wait_until(look, timeout=timeout, what=f"{self!r} logs {text!r}", describe=self._last_lines)

    def events(self, try_number: int | None = None) -> list[dict[str, Any]]:
        """Return a try's log as the UI gets it: one mapping a message (event, timestamp, level, error_detail, ...)."""
        number = try_number or self.try_number or 1
        path = f"{self.run.path}/taskInstances/{self.task_id}/logs/{number}"
        found = self._rest.find(path, map_index=self.map_index, full_content="true")
        messages = (found or {}).get("content", [])
        return [one if isinstance(one, dict) else {"event": str(one)} for one in messages]

    def log(self, try_number: int | None = None) -> str:
        """Return a try's log as text, one message a line, errors with their details; default: the current try."""
        return "\n".join(render_event(one) for one in self.events(try_number))

    def _last_lines(self) -> str:
        return f"state {self.state}, log ends with:\n" + "\n".join(self.log().splitlines()[-15:])

    def xcom(self, key: str = "return_value") -> Any:
        """Return a pushed value, or None."""
        path = f"{self.run.path}/taskInstances/{self.task_id}/xcomEntries/{key}"
        found = self._rest.find(path, map_index=self.map_index)
        return found["value"] if found else None

    def links(self) -> dict[str, str | None]:
        """Return its extra links as the UI gets them: name -> URL, or None where there is none."""
        path = f"{self.run.path}/taskInstances/{self.task_id}/links"
        return dict(self._rest.get(path, map_index=self.map_index)["extra_links"])

    def mark(self, state: str) -> None:
        """Mark it `failed`, `success` or `skipped`, as the UI's buttons do."""
        self._rest.request("PATCH", self.path, json={"new_state": state})

    def clear(self) -> None:
        """Clear it, as the UI does: it runs again as its next try."""
        task: Any = self.task_id if self.map_index < 0 else [self.task_id, self.map_index]
        body = {"dry_run": False, "only_failed": False, "dag_run_id": self.run.run_id, "task_ids": [task]}
        self._rest.request("POST", f"dags/{self.run.dag_id}/clearTaskInstances", json=body)

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the process that runs the task's code now and then the one that supervises it, while it runs."""
        pid = self.details.get("pid")
        if pid and psutil.pid_exists(int(pid)):
            worker = psutil.Process(int(pid))
            yield worker
            if parent := worker.parent():
                yield parent

    def kill_worker(self) -> None:
        """`kill -9` the task's code and its supervising process at once, as when a worker machine is lost.

        Airflow notices by the missing heartbeat: `AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT` seconds later.

        Raises:
            StackError: the task runs nowhere now.
        """
        found = [one.pid for one in self.processes()]
        if self.state != "running" or not found:
            raise StackError(f"{self!r} is {self.state}: no worker runs it")
        for pid in reversed(found):
            os.kill(pid, signal.SIGKILL)
