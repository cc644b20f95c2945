"""The runs of a state directory, found, read, stopped and removed. Blocking but for `stop`: call it in a thread."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siflow_provider.backends.local.off_loop import off_loop
from siflow_provider.backends.local.processes import kill_marked
from siflow_provider.backends.local.ray_leftovers import remove_leftovers
from siflow_provider.backends.local.record import RunState, lost, read_state, read_submission
from siflow_provider.backends.local.shared_data import finish
from siflow_provider.backends.local.store import RunFolder, StateDir, create_json, read_json, write_json
from siflow_provider.core.identity import is_job_name, run_labels
from siflow_provider.core.status import Phase, main_replica
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.status import JobRef, Status

__all__ = ["Runs"]

_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Runs:
    """What is known of all runs under one state directory."""

    state: StateDir

    @classmethod
    def open(cls, configured: str | None) -> Runs:
        """Open the state directory, made where it is missing."""
        return cls(StateDir.open(configured))

    def find(self, identity: Identity) -> JobRef | None:
        """Return this very attempt."""
        return self._find(identity.task_uuid, identity.attempt)

    def find_latest(self, task_uuid: str) -> JobRef | None:
        """Return the newest attempt that is there."""
        listed = self.state.by_run(task_uuid)
        names = [entry.name for entry in listed.iterdir()] if listed.is_dir() else []
        for number in sorted((int(name) for name in names if name.isdigit()), reverse=True):
            if (ref := self._find(task_uuid, number)) is not None:
                return ref
        return None

    def find_named(self, name: str) -> list[Status]:
        """Return the run of that name, where there is one."""
        state = read_state(self.state.run(name)) if is_job_name(name) else None
        return [] if state is None else [state.status()]

    def state_of(self, ref: JobRef) -> RunState:
        """Return the run's state; `lost` when it is gone and left no last state."""
        state = read_state(self.state.run(ref.name))
        if state is not None and state.ref.uid == ref.uid:
            return state
        kept = read_json(self.state.deleted(ref.uid))
        if kept is not None:
            return RunState.model_validate(kept)
        gone = RunState(ref=ref, boot_id="")
        return lost(gone, f"its folder is no longer in {self.state.runs}")

    def replica_names(self, ref: JobRef) -> list[str]:
        """Return the names of the run's replicas, in order; [] when the run is gone."""
        there = read_submission(self.state.run(ref.name))
        if there is None or there.ref.uid != ref.uid:
            return []
        names = [f"{role['role']}-{index}" for role in there.document["replicas"] for index in range(role["count"])]
        speaker = main_replica(ref.kind)
        return names if speaker in names else [speaker, *names]

    def all(self) -> list[Status]:
        """Return every run, newest first."""
        states = [read_state(RunFolder(path)) for path in self.state.runs.iterdir()]
        found = [state for state in states if state is not None]
        found.sort(key=lambda state: state.submitted_at or datetime.min.replace(tzinfo=UTC), reverse=True)
        return [state.status() for state in found]

    async def stop(self, ref: JobRef, by: str, *, wait: bool = True) -> None:
        """Ask for the stop and, with `wait`, wait until the run has its last state and nothing of it is alive.

        Raises:
            BackendUnavailable: it did not end within a minute.
        """
        deadline = time.monotonic() + _STOP_SECONDS
        await off_loop(self._ask, ref, by)
        while wait and not await off_loop(self._gone, ref):
            if time.monotonic() > deadline:
                raise BackendUnavailable(
                    f"{ref.name} was asked to stop and has not ended after {_STOP_SECONDS:g} s.",
                    hint="It will end as soon as its supervisor can run; ask again later.",
                )
            await asyncio.sleep(_POLL_SECONDS)

    def remove(self, ref: JobRef) -> None:
        """Remove an ended run and keep its last state for a day, for those who still follow it."""
        folder = self.state.run(ref.name)
        state = read_state(folder)
        if state is None or state.ref.uid != ref.uid:
            return
        write_json(self.state.deleted(ref.uid), state.model_dump(mode="json"))
        remove_leftovers(folder.work)
        # out of sight at once, so that nobody finds half of it
        aside = self.state.path / "new" / f"{ref.uid}.removed"
        try:
            folder.path.rename(aside)
        except FileNotFoundError:
            return
        (self.state.by_run(ref.task_uuid) / str(ref.attempt)).unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)

    def finish(self, ref: JobRef) -> None:
        """Have the run's data on shared storage removed where its form says so, unless there is a later attempt.

        Raises:
            OSError: it can't be removed.
        """
        latest = self.find_latest(ref.task_uuid)
        if latest is not None and latest.attempt > ref.attempt:
            return
        if self._holds(ref) and not self._alive(ref):
            remove_leftovers(self.state.run(ref.name).work)  # of a supervisor that was killed: they may still write
        finish(self.state, ref.task_uuid)

    def _find(self, task_uuid: str, attempt: int) -> JobRef | None:
        """Return an attempt; its labels decide, the index only leads there."""
        there = read_submission(RunFolder(self.state.by_run(task_uuid) / str(attempt)))
        return there.ref if there is not None and there.labels == run_labels(task_uuid, attempt) else None

    def _ask(self, ref: JobRef, by: str) -> None:
        folder = self.state.run(ref.name)
        state = self.state_of(ref)
        if not self._holds(ref):  # its name may be another run's by now
            return
        if state.phase.terminal and not folder.alive:
            if state.phase is Phase.LOST:
                kill_marked(ref.uid)
                folder.hidden.unlink(missing_ok=True)
            return
        create_json(folder.stop, {"by": by, "at": datetime.now(UTC).isoformat()})

    def _gone(self, ref: JobRef) -> bool:
        return self.state_of(ref).phase.terminal and not self._alive(ref)

    def _alive(self, ref: JobRef) -> bool:
        return self._holds(ref) and self.state.run(ref.name).alive

    def _holds(self, ref: JobRef) -> bool:
        there = read_submission(self.state.run(ref.name))
        return there is not None and there.ref.uid == ref.uid
