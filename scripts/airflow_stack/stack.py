"""A real Airflow for tests and the demo: api-server, scheduler, dag-processor and triggerers, each its own process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import psutil

from scripts.airflow_stack.database import dump_tables, open_database
from scripts.airflow_stack.errors import StackError
from scripts.airflow_stack.keeper import Keeper
from scripts.airflow_stack.rest import Rest, wait_until
from scripts.airflow_stack.run import Run
from scripts.airflow_stack.settings import StackSettings

__all__ = ["AirflowStack"]

_HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_START_SECONDS = 120.0
_START = (
    "import gc, runpy, sys; gc.set_threshold(100_000, 50, 50); del sys.argv[0]; "
    "runpy.run_module('airflow', run_name='__main__')"
)
"""Airflow makes a million objects at its start that stay. Python's search for garbage goes through them again and
again by default, which takes a sixth of the start's time."""


class AirflowStack:
    """A whole Airflow that is up inside its `with` block and gone after it, however the block or this process ends.

    Example:
        >>> with AirflowStack(StackSettings(home=tmp_path)) as stack:
        ...     stack.add_dag("hello", source)
        ...     assert stack.trigger("hello").wait() == "success"

    Args:
        settings: where and how; see `StackSettings`.
    """

    def __init__(self, settings: StackSettings) -> None:
        self.settings = settings
        self.keeper = Keeper(settings.home)
        self.rest = Rest(settings.url, settings.login)
        self.address = ""
        self._env: dict[str, str] = {}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.rest.close)
            self.log_folder.mkdir(parents=True, exist_ok=True)
            self.dags.mkdir(parents=True, exist_ok=True)
            undo.enter_context(self.keeper)
            self.address = undo.enter_context(open_database(self.settings, self.keeper))
            self._env = self.settings.environment(self.address)
            self._migrate()
            self._start_all()
            self._exit = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def _start_all(self) -> None:
        late = self.settings.late_triggerers
        for name in ["api-server", "scheduler", "dag-processor", *([] if late else self.triggerers)]:
            self.start(name)
        wait_until(self._answers, timeout=_START_SECONDS, what="the API server answers", describe=self._api_log)
        # the first request builds the API that tasks talk to, which takes seconds that the first task would wait for
        self.rest.build_execution_api(timeout=_START_SECONDS)
        self.wait_healthy(_HEALTHY[:-1] if late else _HEALTHY)
        for name in self.triggerers if late else []:
            self.start(name)

    def _answers(self) -> bool:
        self._see_that_all_run()
        return bool(self.rest.health())

    def _api_log(self) -> str:
        return self.component_log("api-server")[-4000:]

    @property
    def dags(self) -> Path:
        """The DAGs folder."""
        assert self.settings.dags is not None
        return self.settings.dags

    @property
    def log_folder(self) -> Path:
        """Where each component's own output is: `NAME.log`."""
        return self.settings.home / "components"

    @property
    def triggerers(self) -> list[str]:
        """The triggerers' names: `triggerer-1`, ..."""
        return [f"triggerer-{number}" for number in range(1, self.settings.triggerers + 1)]

    def airflow(self, *arguments: str, timeout: float = 120) -> str:
        """Run an `airflow` command in the stack's environment to its end and return its output.

        Raises:
            StackError: it failed; its output's end is in the text.
        """
        argv = [sys.executable, "-c", _START, "airflow", *arguments]
        done = subprocess.run(
            argv, env=self._env, cwd=self.settings.home, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise StackError(
                f"airflow {' '.join(arguments)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}"
            )
        return done.stdout

    def _migrate(self) -> None:
        """Make the tables, unless this very version of Airflow made them in an earlier start: that saves seconds."""
        made_by = self.settings.home / "migrated"
        version = metadata.version("apache-airflow-core")
        if made_by.exists() and made_by.read_text(encoding="utf-8") == version:
            return
        self.airflow("db", "migrate")
        if self.settings.database == "sqlite":
            made_by.write_text(version, encoding="utf-8")

    def start(self, name: str) -> None:
        """Start a component: `api-server`, `scheduler`, `dag-processor`, `triggerer-N`."""
        command = name.partition("-")[0] if name.startswith("triggerer") else name
        # logs are read from the shared folder: a server for them would listen on every interface
        quiet = ["--skip-serve-logs"] if command in ("scheduler", "triggerer") else []
        argv = [sys.executable, "-c", _START, "airflow", command, *quiet]
        self.keeper.start(name, argv, self._env, log=self.log_folder / f"{name}.log", cwd=str(self.settings.home))

    def kill(self, name: str) -> None:
        """`kill -9` a component's main process; what it leaves below itself must cope, as after a real crash."""
        self.keeper.signal(name, signal.SIGKILL)
        self._wait_ended(name)

    def terminate(self, name: str) -> None:
        """End a component the polite way (SIGTERM), as a rolling restart does, and wait for its end."""
        self.keeper.signal(name, signal.SIGTERM)
        self._wait_ended(name)

    def kill_triggerer(self, name: str = "triggerer-1", *, restart: bool = True) -> None:
        """`kill -9` a triggerer and, unless told not to, start a new one in its place."""
        self.kill(name)
        if restart:
            self.start(name)

    def _wait_ended(self, name: str) -> None:
        wait_until(lambda: self.keeper.status()[name][1] is not None, timeout=60, what=f"{name} has ended")

    def wait_healthy(self, parts: Sequence[str] = _HEALTHY, timeout: float = _START_SECONDS) -> None:
        """Wait until every component, or the given ones, report themselves healthy.

        Raises:
            StackError: one ended, or it took too long; the end of its output is in the text.
        """

        def look() -> bool:
            self._see_that_all_run()
            states = self.rest.health()
            return all(states.get(part) == "healthy" for part in parts)

        wait_until(look, timeout=timeout, what="all components are healthy", describe=lambda: str(self.rest.health()))

    def _see_that_all_run(self) -> None:
        for name, (_, code) in self.keeper.status().items():
            if code is not None:
                raise StackError(f"{name} ended (exit {code}):\n{self.component_log(name)[-4000:]}")

    def component_log(self, name: str) -> str:
        """Return what a component has printed since the home was made."""
        path = self.log_folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def add_dag(self, name: str, source: str) -> None:
        """Write `NAME.py` into the DAGs folder and wait until Airflow has read the DAG `NAME` from it.

        Raises:
            StackError: the file can't be imported (the traceback is in the text), or it holds no DAG of that name.
        """
        path = self.dags / f"{name}.py"
        written = time.time()
        path.write_text(source, encoding="utf-8")
        self.wait_dag(name, since=written, file=path.name)

    def wait_dag(self, dag_id: str, *, since: float = 0.0, file: str = "", timeout: float = 60) -> None:
        """Wait until Airflow has read the DAG, at or after the moment `since` (seconds of the epoch)."""

        def look() -> bool:
            found = self.rest.find(f"dags/{dag_id}")
            if found and _moment(found["last_parsed_time"]) >= since:
                return True
            for error in self.rest.get("importErrors", limit=200)["import_errors"]:
                if file and error["filename"].endswith(file) and _moment(error["timestamp"]) >= since:
                    raise StackError(f"{file} can't be imported:\n{error['stack_trace']}")
            return False

        wait_until(look, timeout=timeout, what=f"Airflow has read the DAG {dag_id}")

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> Run:
        """Start a DAG run by hand, as the UI's button does; `conf` sets params."""
        body = {"logical_date": None, "conf": conf or {}}
        made = self.rest.request("POST", f"dags/{dag_id}/dagRuns", json=body).json()
        return Run(self.rest, dag_id, made["dag_run_id"])

    def db_dump(self) -> str:
        """Return every row of every table as text: for searches of what must not be stored."""
        return dump_tables(self.address)

    def processes(self) -> list[psutil.Process]:
        """Return every process of the stack: components, workers, and what they started, detached ones included."""
        return self.keeper.processes()


def _moment(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
