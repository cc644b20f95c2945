"""The starter's side of the process that owns a stack (`keeper_process.py`)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

from scripts.airflow_stack import keeper_process
from scripts.airflow_stack.errors import AlreadyUpError, StackError

__all__ = ["Keeper", "stop_kept"]

_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 40.0


class Keeper:
    """Starts processes that end when the starter does, in whatever way that happens.

    Example:
        >>> with Keeper(folder) as keeper:
        ...     keeper.start("scheduler", [sys.executable, "-m", "airflow", "scheduler"], env, log=folder / "s.log")

    Args:
        folder: where the lock that shows "somebody is up here" lies; one keeper a folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = False
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Keeper:
        self.folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-I", keeper_process.__file__, str(self.folder)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            self.status()
        except StackError:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The keeper's own process id; every process of the stack is below it."""
        return self._running().pid

    def start(self, name: str, argv: list[str], env: dict[str, str], *, log: Path, **where: Any) -> int:
        """Start a component and return its process id.

        Args:
            name: what the other methods call it.
            argv: its command line.
            env: its whole environment.
            log: gets its output, appended.
            where: `cwd`, `user` and `group` (numbers), `stop_signal` (not given: SIGTERM; given: also "end it last"),
                `remove` (a folder to delete when everything has ended).

        Raises:
            StackError: the command could not be started.
        """
        settings = {"cwd": str(self.folder), **where}
        return int(self._ask("start", name=name, argv=argv, env=env, log=str(log), **settings)["pid"])

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the component's first process."""
        self._ask("signal", name=name, number=int(number))

    def status(self) -> dict[str, tuple[int, int | None]]:
        """Return each component's process id and exit code (None while it runs)."""
        return {name: (pid, code) for name, (pid, code) in self._ask("status").items()}

    def keep(self) -> None:
        """Let the processes outlive the starter; from now on only `stop_kept(folder)` ends them."""
        self._ask("keep")
        self.kept = True
        self._process = None

    def processes(self) -> list[psutil.Process]:
        """Return every process below the keeper that runs now; ended ones that wait to be reaped don't count."""
        return [one for one in psutil.Process(self.pid).children(recursive=True) if _runs(one)]

    def stop(self) -> None:
        """End every process of the stack and the keeper; returns when they are gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise StackError("the stack is not up: use it inside its `with` block")
        return self._process

    def _ask(self, do: str, **request: Any) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        with self._turn:
            with contextlib.suppress(BrokenPipeError):  # it has ended: read why below
                process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
                process.stdin.flush()
            select.select([process.stdout], [], [], _ANSWER_SECONDS)
            line = process.stdout.readline() if process.stdout.peek(1) else b""  # type: ignore[attr-defined]
        if not line and process.wait(_ANSWER_SECONDS) == keeper_process.ALREADY_HELD:
            raise AlreadyUpError(f"a stack is up already in {self.folder}; end that one first")
        if not line:
            raise StackError(f"the process that keeps the stack in {self.folder} ended (exit {process.returncode})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StackError(f"{do} {request.get('name', '')}: {answer['error']}")
        return answer


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stop_kept(folder: Path) -> bool:
    """End the stack that was left up in `folder`; return whether there was one.

    The keeper's lock, not its number, says whether it runs: a stale number is never signalled.
    """
    path = folder / keeper_process.LOCK_FILE
    if not path.exists():
        return False
    with path.open("r+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            keeper = os.pidfd_open(int(lock.read()))
            try:
                signal.pidfd_send_signal(keeper, signal.SIGTERM)
                if not select.select([keeper], [], [], _STOP_SECONDS)[0]:
                    raise StackError(f"the stack in {folder} did not end within {_STOP_SECONDS:.0f} s") from None
            finally:
                os.close(keeper)
            return True
    return False
