"""The process that owns a stack's processes, so that none of them can outlive the stack.

Whoever starts a stack may end in any way: Ctrl-C, an exception, `kill -9`. So the components are not its children but
this process's: it is the subreaper of everything below it and watches a pipe whose other end the starter holds. When
that pipe closes (the kernel does it, however the starter ends) every descendant is ended, the ones with sessions of
their own included. If this process itself is killed, its direct children get SIGTERM from the kernel.

Run as a script, with the standard library alone: `python -I keeper_process.py FOLDER`. It takes one JSON object a line
on standard input (`start`, `signal`, `status`, `keep`, `stop`) and answers each with one on standard output.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LOCK_FILE = "keeper.lock"
KEPT_LOG = "keeper.log"
ALREADY_HELD = 75
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_COMPONENT_GRACE_SECONDS = 1.0
_DESCENDANT_GRACE_SECONDS = 3.0
_libc = ctypes.CDLL(None, use_errno=True)


def descendants(root: int) -> list[int]:
    """Return the ids of all processes below `root`, from the process table."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


class KeeperProcess:
    """Starts, signals, reaps and in the end removes the processes of one stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = False
        self.stopping = False
        self.folders: list[str] = []
        self.started: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self.ended: dict[int, int] = {}
        self.wakeup, self._wakeup_writer = socket.socketpair()

    def run(self) -> int:
        """Serve requests until told to stop, signalled, or (unless kept) until the starter is gone."""
        with (self.folder / LOCK_FILE).open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ALREADY_HELD
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._listen_to_signals()
            try:
                self._serve()
            finally:
                self._end_all()
                for path in self.folders:
                    shutil.rmtree(path, ignore_errors=True)
        return 0

    def _listen_to_signals(self) -> None:
        self.wakeup.setblocking(False)
        self._wakeup_writer.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, *_: object) -> None:
        self.stopping = True

    def _serve(self) -> None:
        pending = b""
        sources: list[Any] = [self.wakeup, 0]
        while not self.stopping:
            ready, _, _ = select.select(sources, [], [])
            self._reap()
            if 0 not in ready:
                continue
            data = os.read(0, 65536)
            if not data:
                self.stopping = not self.kept
                sources.remove(0)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._answer(json.loads(line))

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            answer = getattr(self, f"do_{request.pop('do')}")(**request)
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):
            os.write(1, json.dumps(answer or {}).encode() + b"\n")

    def do_start(self, name: str, argv: list[str], env: dict[str, str], **where: Any) -> dict[str, int]:
        """Start a component in a session of its own; `where`: cwd, log, user, group, stop_signal, remove (a folder)."""

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

        with Path(where["log"]).open("ab") as log:
            # PLW1509: this process has one thread, and the parent-death signal can be set nowhere else
            process = subprocess.Popen(
                argv, env=env, cwd=where["cwd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509
                user=where.get("user"), group=where.get("group"), extra_groups=[] if where.get("user") else None,
            )  # fmt: skip
        self.folders += [where["remove"]] if where.get("remove") else []
        self.started[name] = (process, where.get("stop_signal", signal.SIGTERM))
        return {"pid": process.pid}

    def do_signal(self, name: str, number: int) -> None:
        """Send a signal to a component's first process, if that still runs."""
        process = self.started[name][0]
        if process.pid not in self.ended:
            os.kill(process.pid, number)

    def do_status(self) -> dict[str, Any]:
        """Tell each component's process id and, once ended, its exit code."""
        self._reap()
        return {name: [one.pid, self.ended.get(one.pid)] for name, (one, _) in self.started.items()}

    def do_keep(self) -> None:
        """From now on outlive the starter: only a signal or `stop` ends the stack."""
        self.kept = True
        # the starter's standard error may be a pipe, and whoever reads that waits until nobody holds it any more
        with (self.folder / KEPT_LOG).open("ab") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())

    def do_stop(self) -> None:
        """End everything."""
        self.stopping = True

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.wakeup.recv(4096):
                pass
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.ended[pid] = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> None:
        """End the components; then what they left below this process; then the servers that asked to be last.

        A component that is still busy after a moment is killed: a triggerer alone may take 12 s to leave politely, and
        nobody needs what it would write. What components started (a training, say) gets its own moment after that.
        """
        last = {one.pid: number for one, number in self.started.values() if number != signal.SIGTERM}
        components = [one.pid for one, _ in self.started.values() if one.pid not in last]

        def others() -> list[int]:
            spared = {*last, *(below for pid in last for below in descendants(pid))}
            return [pid for pid in descendants(os.getpid()) if pid not in spared]

        self._signal(components, signal.SIGTERM)
        self._wait_for(lambda: [pid for pid in components if pid not in self.ended], _COMPONENT_GRACE_SECONDS)
        self._signal(components, signal.SIGKILL)
        self._signal(others(), signal.SIGTERM)
        self._wait_for(others, _DESCENDANT_GRACE_SECONDS)
        self._signal(others(), signal.SIGKILL)
        for pid, number in last.items():
            self._signal([pid], number)
        self._wait_for(lambda: descendants(os.getpid()), _DESCENDANT_GRACE_SECONDS)
        while left := descendants(os.getpid()):
            self._signal(left, signal.SIGKILL)
            self._wait_for(lambda: descendants(os.getpid()), 0.2)

    def _signal(self, pids: list[int], number: int) -> None:
        for pid in pids:
            if pid not in self.ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _wait_for(self, left: Any, seconds: float) -> None:
        """Reap until `left()` is empty, for at most `seconds`; SIGCHLD wakes it up."""
        deadline = time.monotonic() + seconds
        self._reap()
        while left() and (rest := deadline - time.monotonic()) > 0:
            select.select([self.wakeup], [], [], min(rest, 0.1))
            self._reap()


if __name__ == "__main__":
    sys.exit(KeeperProcess(Path(sys.argv[1])).run())
