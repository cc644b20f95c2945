"""The processes of one attempt: started so that none can outlive the supervisor, ended as a whole tree.

Each process leads its own session and gets SIGKILL when the supervisor dies; the supervisor is a child subreaper, so
what a replica leaves behind (daemons, `setsid`) becomes its child and is found by walking the tree, whatever it calls
itself. Source: prctl(2) PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER; pidfd_open(2).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from siflow_provider.backends.local.tether import die_with_parent

__all__ = ["MARKER_ENV", "Processes", "exit_code", "kill_marked", "kill_tree"]

MARKER_ENV = "SIFLOW_RUN_UID"
"""In the environment of every process of a run: finds those that nobody's child is any more."""
_PROMPT_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0


def exit_code(returncode: int) -> int:
    """Return what a shell would call the exit code: 128 + n for signal n."""
    return 128 - returncode if returncode < 0 else returncode


class Processes:
    """Starts and ends the processes of one attempt. For one thread."""

    def __init__(self) -> None:
        self._own: dict[int, subprocess.Popen[bytes]] = {}

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], directory: Path, log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process in its own session, both outputs at the end of `log`, nothing to read on its input.

        Raises:
            OSError: the program, the directory or the log file can't be used.
        """
        log.parent.mkdir(exist_ok=True)  # no parents: a run's folder that somebody removed must not come back
        with log.open("ab") as output:
            process = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
            )
        self._own[process.pid] = process
        return process

    def reap_orphans(self) -> None:
        """Take the exit of each ended process that was left to us, so that none stays a zombie. One system call."""
        while (pid := _ended_child()) is not None:
            own = self._own.get(pid)
            if own is not None and own.returncode is None:
                own.poll()  # its exit code belongs to its owner
            else:
                os.waitpid(pid, os.WNOHANG)

    def end(self, processes: Iterable[subprocess.Popen[bytes]], grace_seconds: float) -> None:
        """End these processes and all below them: SIGTERM to their groups, SIGKILL after the grace."""
        chosen = [process for process in processes if process.poll() is None]
        trees = [_tree(process.pid) for process in chosen]
        for process in chosen:
            _signal_group(process.pid, signal.SIGTERM)
        _wait([process.pid for process in chosen], grace_seconds)
        kill_tree([member for tree in trees for member in tree])
        for process in chosen:
            process.wait()
        self.reap_orphans()

    def end_all(self, grace_seconds: float) -> tuple[str, ...]:
        """End every descendant of this process, and return those that even SIGKILL could not end within a minute.

        Each gets SIGTERM and `grace_seconds`, then whatever is left gets SIGKILL until nothing is left. What stays is
        another user's (`sudo`) or hangs in the kernel (a dead network disk, a driver).
        """
        for process in self._own.values():
            if process.poll() is None:
                _signal_group(process.pid, signal.SIGTERM)
        for member in self._alive():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(member.pid) not in self._own:  # it left its replica's session
                    member.terminate()
        deadline = time.monotonic() + grace_seconds
        while (alive := self._alive()) and time.monotonic() < deadline:
            _wait([alive[0].pid], min(_PROMPT_SECONDS * 4, deadline - time.monotonic()))
            self.reap_orphans()
        return _kill_until_gone(self._alive, self.reap_orphans)

    def _alive(self) -> list[psutil.Process]:
        for process in self._own.values():
            process.poll()
        return [child for child in psutil.Process().children(recursive=True) if not _is_zombie(child)]


def kill_tree(members: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each that still is the process it was, and wait a moment for them to go."""
    pids = []
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            member.kill()
        pids.append(member.pid)
    for pid in pids:
        _wait([pid], 1.0)


def kill_marked(uid: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> tuple[str, ...]:
    """Kill every process whose environment says that it belongs to run `uid`: what outlived its whole supervision.

    Returns those that are still there after that long.
    """
    return _kill_until_gone(
        lambda: [process for process in psutil.process_iter() if _is_marked(process, uid)],
        patience_seconds=patience_seconds,
    )


def _kill_until_gone(
    look: Callable[[], list[psutil.Process]],
    afterwards: Callable[[], None] = lambda: None,
    *,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> tuple[str, ...]:
    deadline = time.monotonic() + patience_seconds
    while alive := look():
        if time.monotonic() > deadline:
            return tuple(f"process {member.pid}" for member in alive)
        kill_tree(alive)
        afterwards()
    return ()


def _is_marked(process: psutil.Process, uid: str) -> bool:
    try:
        return process.environ().get(MARKER_ENV) == uid and not _is_zombie(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


def _ended_child() -> int | None:
    """Return a child that has ended and whose exit nobody took yet, without taking it."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return ended.si_pid if ended is not None else None


def _tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _wait(pids: Sequence[int], timeout: float) -> None:
    """Wait until all have ended (a zombie has) or the time is over."""
    deadline = time.monotonic() + timeout
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            watcher = select.poll()
            watcher.register(descriptor, select.POLLIN)
            watcher.poll(max(0.0, deadline - time.monotonic()) * 1000)
        finally:
            os.close(descriptor)
