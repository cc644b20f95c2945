"""The detached process that owns a run: `python -m siflow_provider.backends.local.supervisor STATE STAGING NAME FD`.

Three processes, so that any one of them may be killed at any moment:

- the first publishes nothing itself; it waits until the run is published, tells its starter, and ends;
- the *guard* publishes the run (a rename), holds the lock, and waits for the supervisor. When that one is gone, it
  ends all processes that are left of the run, says `lost` if the supervisor could not say anything, and removes the
  run's data on shared storage if it is due;
- the *supervisor* runs the attempt. When the guard is killed it ends the run in order.

This module imports little, so that a submit is quick and the guard stays small.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

from siflow_provider.backends.local.store import RunFolder, StateDir, read_json, write_json

__all__ = ["NAME_EXISTS", "PUBLISHED", "SUPERVISOR_NAMES", "main"]

PUBLISHED = 0
NAME_EXISTS = 3
_BROKEN = 4
SUPERVISOR_NAMES = frozenset({"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "SIFLOW_LOCAL_GRACE_PERIOD"})
"""Variables that the supervisor gets and its replicas don't: they are about the supervision alone."""


def main(argv: list[str]) -> int:
    """Detach, publish the run, and own it until its end; returns in the first process only."""
    state, staging, name, lock = StateDir(Path(argv[0])), RunFolder(Path(argv[1])), argv[2], int(argv[3])
    os.set_inheritable(lock, False)
    _forget_signals()
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.close(lock)
        answer = os.read(reader, 1)
        return answer[0] if answer else _BROKEN
    os.close(reader)
    os.setsid()
    code = 1
    try:
        code = _publish(state, staging, name)
        os.write(writer, bytes([code]))
        os.close(writer)
        if code == PUBLISHED:
            _guard(state, state.run(name), lock)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _forget_signals() -> None:
    """Take back what the starter blocked or ignores: a run must be ended by SIGTERM whoever submitted it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _publish(state: StateDir, staging: RunFolder, name: str) -> int:
    final = state.run(name)
    try:
        staging.path.rename(final.path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(staging.path, ignore_errors=True)
        return NAME_EXISTS
    # before the starter is told, so that runs submitted one after the other queue in that order
    write_json(state.path / "queue" / f"{name}.json", read_json(final.path / "queue.json"))
    return PUBLISHED


def _guard(state: StateDir, folder: RunFolder, lock: int) -> None:
    from siflow_provider.backends.local.shared_data import remove_due
    from siflow_provider.backends.local.tether import become_subreaper, die_with_parent

    become_subreaper()
    guard = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        os.setsid()
        die_with_parent(signal.SIGTERM)
        _supervise(state, folder, lock, guard)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == supervisor:
            break
    code = os.waitstatus_to_exitcode(status)
    if code != 0:  # 0: it ended everything and wrote the last state itself
        _clean_up(state, folder, lock, code)
    os.close(lock)  # nothing of the run is alive any more: who said before that its data shall go left that to us
    remove_due(state)


def _supervise(state: StateDir, folder: RunFolder, lock: int, guard: int) -> None:
    """Run the attempt in this process and end it."""
    code = 1
    try:
        from siflow_provider.backends.local.attempt import Attempt

        if os.getppid() == guard:
            Attempt(state, folder, lock).run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _clean_up(state: StateDir, folder: RunFolder, lock: int, code: int) -> None:
    """End what is left of the run, give back its share, and see that it has a last state."""
    from siflow_provider.backends.local.ledger import Entry, Ledger
    from siflow_provider.backends.local.lock import is_still
    from siflow_provider.backends.local.processes import Processes
    from siflow_provider.backends.local.ray_leftovers import remove_leftovers
    from siflow_provider.backends.local.record import close_abandoned

    Processes().end_all(0.0)
    if not is_still(folder.lock, lock):  # somebody removed it, and what stands in its place is another run's
        return
    remove_leftovers(folder.work)
    folder.hidden.unlink(missing_ok=True)
    close_abandoned(folder, code)
    entry = Entry.parse(read_json(folder.path / "queue.json"))
    if entry is not None:
        Ledger(state).leave(entry.name, entry.uid)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
