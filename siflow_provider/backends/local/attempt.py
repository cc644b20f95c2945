"""One attempt from the queue to its end, in the supervisor's own process: one thread, one loop, one state file."""

from __future__ import annotations

import os
import select
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, cast

import psutil

from siflow_provider.backends.local.capacity import Amounts
from siflow_provider.backends.local.ending import failure_of, oom_kills, report_results
from siflow_provider.backends.local.grace import grace_seconds
from siflow_provider.backends.local.ledger import QUEUE, Admission, Entry, Ledger
from siflow_provider.backends.local.lock import is_still
from siflow_provider.backends.local.place import prepare
from siflow_provider.backends.local.processes import Processes
from siflow_provider.backends.local.record import Replica, RunState, Submission, lost, read_submission, write_state
from siflow_provider.backends.local.runner import Ending, Launch, Runner, RunnerState
from siflow_provider.backends.local.store import RunFolder, StateDir, read_json
from siflow_provider.backends.local.tether import become_subreaper
from siflow_provider.core.status import Failure, FailureClass, Phase, QueuePlace
from siflow_provider.core.veil import Veil
from siflow_provider.errors import SiflowError, UsageError

__all__ = ["Attempt"]

_POLL_SECONDS = 0.2
_RUNNERS = {
    "PyTorchJob": "siflow_provider.backends.local.gang:Gang",
    "RayJob": "siflow_provider.backends.local.ray_cluster:RayCluster",
}
_SIGKILLED = 128 + signal.SIGKILL


class _CannotPrepare(UsageError):
    """What the task mounts is not there."""


class Attempt:
    """The supervisor's work. Made and run once a process."""

    def __init__(self, state_dir: StateDir, folder: RunFolder, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._state_dir = state_dir
        self._ledger = Ledger(state_dir)
        self._processes = Processes()
        self._told_to_end = False
        self._oom_kills = oom_kills()
        self._wake = _wake_on_signals(self._on_terminate)
        submission = read_submission(folder)
        if submission is None:
            raise SiflowError(f"{folder.manifest} can't be read.")
        self._submission: Submission = submission
        self._hidden: Mapping[str, str] = read_json(folder.hidden) or {}
        folder.hidden.unlink(missing_ok=True)
        self._state = RunState.model_validate(read_json(folder.state))
        self._links: dict[str, str] = {}
        self._written: RunState | None = None

    def run(self) -> None:
        """Wait for admission, run, and write the last state. Every way out ends all processes first."""
        become_subreaper()
        self._save(supervisor=os.getpid())
        runner: Runner | None = None
        try:
            gpus = self._wait_for_admission()
            if gpus is not None:
                runner = self._make_runner(gpus)
                runner.start()
                self._follow(runner)
        except Exception as error:
            self._fail(error)
        finally:
            self._finish(runner)

    # -- the queue

    def _wait_for_admission(self) -> tuple[int, ...] | None:
        """Return the GPUs that the attempt holds from now on; None when it was stopped before."""
        entry = self._entry()
        while not self._ending_asked():
            answer = self._look_at_the_queue(entry)
            if answer.admitted:
                self._save(phase=Phase.STARTING, reason="admitted", queue=None, admitted_at=datetime.now(UTC))
                return answer.gpus
            place = QueuePlace(queue=QUEUE, position=answer.position, reason=answer.reason)
            self._save(reason=answer.reason, queue=place)
            self._pause()
        return None

    def _look_at_the_queue(self, entry: Entry) -> Admission:
        try:
            return self._ledger.admit(entry)
        except (UsageError, OSError) as error:  # the admin's capacity file, a full disk: no reason to fail who waits
            return Admission(False, reason=str(error))

    def _entry(self) -> Entry:
        document, ref = self._submission.document, self._submission.ref
        submitted = self._submission.submitted_at.timestamp()
        return Entry(ref.name, ref.uid, document["priority"], submitted, Amounts.of(document["need"]))

    # -- the work

    def _make_runner(self, gpus: tuple[int, ...]) -> Runner:
        try:
            place = prepare(self._folder, self._submission, self._hidden)
        except UsageError as error:
            raise _CannotPrepare(error.message, hint=error.hint) from error
        for note in place.notes:
            self._event(note)
        launch = Launch(
            name=self._submission.ref.name,
            uid=self._submission.ref.uid,
            document=place.document,
            folder=self._folder.path,
            directory=place.directory,
            env=place.env,
            prefix=place.prefix,
            gpus=gpus,
            processes=self._processes,
            event=self._event,
        )
        if (monitoring := place.document["monitoring"]) is not None:
            self._links = {"metrics": f"http://127.0.0.1:{monitoring['port']}{monitoring['path']}"}
        return _runner(launch)

    def _follow(self, runner: Runner) -> None:
        """Poll until the work has ended and nothing is kept, or somebody asked for the end."""
        while not self._told_to_end:  # at a shutdown of the machine the training ends of the same signal
            # before the look: work that has ended by now was quicker than the stop
            asked = self._folder.stop.exists() or not self._has_folder
            now = runner.poll()
            self._observe(now)
            if now.ending is not None and not self._state.phase.terminal:
                self._conclude(runner, now.ending, keep=not now.finished)
            if now.finished or asked:
                return
            self._processes.reap_orphans()
            self._pause()

    def _observe(self, now: RunnerState) -> None:
        replicas = _replicas(now, self._state.replicas, self._state.veil)
        changes: dict[str, Any] = {"replicas": replicas, "links": {**self._links, **now.links}}
        if not self._state.phase.terminal:
            changes["reason"] = now.reason
            started = bool(replicas) and all(r.phase is Phase.RUNNING or r.phase.terminal for r in replicas)
            if started and self._state.running_at is None:
                changes.update(phase=Phase.RUNNING, running_at=datetime.now(UTC))
        self._save(**changes)

    def _conclude(self, runner: Runner, ending: Ending, *, keep: bool) -> None:
        """Write the state that the work ended with; without `keep` after all processes are gone."""
        if not keep:
            runner.stop(self._grace_seconds)
            self._end_processes()
            self._links = {}
            self._observe(runner.poll())
            self._leave()
        note = report_results(self._folder, self._submission)
        if note:
            self._event(note, warning=True)
        if ending.succeeded:
            self._save(phase=Phase.SUCCEEDED, reason="", ended_at=datetime.now(UTC))
            return
        killed = ending.exit_code == _SIGKILLED and oom_kills() > self._oom_kills
        failure = failure_of(self._folder, self._state, ending, out_of_memory=killed)
        self._save(phase=Phase.FAILED, reason=failure.summary, failure=failure, ended_at=datetime.now(UTC))

    # -- the end

    def _ending_asked(self) -> bool:
        return self._told_to_end or self._folder.stop.exists() or not self._has_folder

    @property
    def _has_folder(self) -> bool:
        """Whether the run's folder is there and no other run's: without it nobody can follow or stop the run."""
        return is_still(self._folder.lock, self._lock)

    @property
    def _grace_seconds(self) -> float:
        """How long replicas may take to end: no time when the run is already told as lost, with nothing running."""
        return grace_seconds() if self._has_folder else 0.0

    def _leave(self) -> None:
        self._ledger.leave(self._submission.ref.name, self._submission.ref.uid)

    def _end_processes(self) -> None:
        for survivor in self._processes.end_all(self._grace_seconds):
            self._event(f"{survivor} could not be ended: it is another user's, or hangs in the kernel", warning=True)

    def _fail(self, error: Exception) -> None:
        """End a run that could not be started or followed, with what we know."""
        if self._state.phase.terminal:
            return
        if isinstance(error, SiflowError):
            message, hint = error.message, error.hint
        else:
            traceback.print_exception(error)
            message, hint = f"{type(error).__name__}: {error}", f"See {self._folder.supervisor_log}."
        category = FailureClass.DATA_PATH if isinstance(error, _CannotPrepare) else FailureClass.PLATFORM
        failure = Failure(category=category, summary=message, hint=hint)
        self._end_processes()
        self._save(phase=Phase.FAILED, reason=message, failure=failure, ended_at=datetime.now(UTC), queue=None)

    def _finish(self, runner: Runner | None) -> None:
        """See that nothing runs and that the state is a last one, whichever way we came here."""
        if runner is not None:
            runner.stop(self._grace_seconds)
        self._end_processes()
        self._links = {}
        if runner is not None:
            self._observe(runner.poll())
        self._leave()
        if self._state.phase.terminal or not self._has_folder:
            return
        if self._folder.stop.exists():
            asked = read_json(self._folder.stop) or {}
            by = str(asked.get("by", "somebody"))
            self._save(
                phase=Phase.STOPPED, reason=f"stopped by {by}", stopped_by=by, ended_at=datetime.now(UTC), queue=None
            )
            return
        gone = lost(self._state, "the supervisor was told to end (SIGTERM), as at a shutdown of the machine")
        changes = {name: getattr(gone, name) for name in ("phase", "reason", "failure", "replicas", "queue")}
        self._save(**changes, ended_at=datetime.now(UTC))

    # -- the state file and the clock

    def _event(self, text: str, *, warning: bool = False) -> None:
        self._state = self._state.with_event(self._state.veil.over(text), warning=warning)
        self._save()

    def _save(self, **changes: Any) -> None:
        self._state = self._state.model_copy(update=changes)
        if self._state == self._written or not self._has_folder:
            return
        try:
            write_state(self._folder, self._state)
        except OSError:
            if self._state.phase.terminal and self._has_folder:
                raise
            return  # a full disk ends no training: the next look writes it; a folder that was removed needs none
        self._written = self._state

    def _on_terminate(self) -> None:
        self._told_to_end = True

    def _pause(self) -> None:
        """Wait for a moment, or less when a child ends or a signal comes."""
        ready, _, _ = select.select([self._wake], [], [], _POLL_SECONDS)
        if ready:
            os.read(self._wake, 4096)


def _runner(launch: Launch) -> Runner:
    module, _, name = _RUNNERS[launch.document["kind"]].partition(":")
    make = cast("Callable[[Launch], Runner]", getattr(import_module(module), name))
    return make(launch)


def _replicas(now: RunnerState, before: tuple[Replica, ...], veil: Veil) -> tuple[Replica, ...]:
    known = {replica.name: replica for replica in before}
    out = []
    for status in now.replicas:
        pid = now.pids.get(status.name)
        old = known.get(status.name)
        started = old.started if old is not None and old.pid == pid else _started(pid)
        shown = asdict(status) | {"reason": veil.over(status.reason)}
        out.append(Replica(**shown, pid=pid, started=started))
    return tuple(out)


def _started(pid: int | None) -> float | None:
    try:
        return psutil.Process(pid).create_time() if pid is not None else None
    except psutil.NoSuchProcess:
        return None


def _wake_on_signals(on_terminate: Callable[[], None]) -> int:
    """Make SIGCHLD and SIGTERM readable on the descriptor that is returned."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: on_terminate())
    return reader
