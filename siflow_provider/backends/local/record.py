"""What the files of a run hold: the submission, written once, and the state, rewritten whole by the supervisor."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from siflow_provider.backends.local.store import RunFolder, boot_id, read_json, write_json
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.status import Event, Failure, FailureClass, JobRef, Phase, QueuePlace, ReplicaStatus, Status
from siflow_provider.core.veil import Veil

__all__ = [
    "RESERVE_BYTES",
    "Replica",
    "RunState",
    "Submission",
    "close_abandoned",
    "lost",
    "read_state",
    "read_submission",
    "write_state",
]

RESERVE_BYTES = 128 * 1024
"""What a last state takes at most, its events and last lines included."""
_MAX_EVENTS = 200
_M = TypeVar("_M", bound=BaseModel)


class _Record(BaseModel):
    # what a newer version adds is left aside: a triggerer may be older than the supervisor after an upgrade
    model_config = ConfigDict(extra="ignore")


class Submission(_Record):
    """manifest.json: what was asked for, hidden values apart.

    Attributes:
        document: the rendered document.
        labels: the identity's labels: whose run this is.
        directory: where the processes start: the submitter's working directory.
        boot_id: the boot that it was submitted in.
    """

    ref: JobRef
    labels: dict[str, str]
    document: dict[str, Any]
    directory: str
    submitted_at: datetime
    boot_id: str


class Replica(_Record):
    """One replica in state.json; as `ReplicaStatus`, with its first process."""

    name: str
    role: str
    phase: Phase
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None
    reason: str = ""
    pid: int | None = None
    started: float | None = None
    """When that process was started, by its own account: tells it from a later process of the same number."""

    def status(self) -> ReplicaStatus:
        """Return it in the words of the core."""
        return ReplicaStatus(
            name=self.name,
            role=self.role,
            phase=self.phase,
            rank=self.rank,
            node=self.node,
            exit_code=self.exit_code,
            reason=self.reason,
        )


class RunState(_Record):
    """state.json: the whole state, as the supervisor last saw it; of hidden values it holds the veil only."""

    ref: JobRef
    phase: Phase = Phase.QUEUED
    reason: str = ""
    replicas: tuple[Replica, ...] = ()
    queue: QueuePlace | None = None
    events: tuple[Event, ...] = ()
    submitted_at: datetime | None = None
    """None of a run of which nothing is left."""
    admitted_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    gpus: float = 0.0
    stopped_by: str = ""
    failure: Failure | None = None
    links: dict[str, str] = {}
    owner: str = ""
    private: bool = False
    timezone: str = "UTC"
    veil: Veil = Veil()
    moves: Moves = Moves()
    origin: Origin | None = None
    boot_id: str
    supervisor: int | None = None
    """The supervisor's process id, for eyes and tests; whether it lives is asked of the lock."""

    def with_event(self, text: str, *, warning: bool = False) -> RunState:
        """Return the state with one more event; the oldest go first."""
        events = (*self.events, Event(time=datetime.now(UTC), text=text, warning=warning))
        return self.model_copy(update={"events": events[-_MAX_EVENTS:]})

    def status(self, now: datetime | None = None) -> Status:
        """Return the snapshot that the core knows."""
        until = self.admitted_at or self.ended_at or now or datetime.now(UTC)
        waited = timedelta() if self.submitted_at is None else until - self.submitted_at
        return Status(
            ref=self.ref,
            phase=self.phase,
            reason=self.reason,
            replicas=tuple(replica.status() for replica in self.replicas),
            queue=self.queue,
            events=self.events,
            submitted_at=self.submitted_at,
            admitted_at=self.admitted_at,
            running_at=self.running_at,
            ended_at=self.ended_at,
            queued_seconds=max(0.0, waited.total_seconds()),
            gpus=self.gpus,
            stopped_by=self.stopped_by,
            failure=self.failure,
            links=dict(self.links),
            owner=self.owner,
            private=self.private,
            timezone=self.timezone,
            veil=self.veil,
            moves=self.moves,
            origin=self.origin,
        )


def read_submission(folder: RunFolder) -> Submission | None:
    """Return what was submitted; None when the folder is not there or is not ours."""
    return _parse(Submission, read_json(folder.manifest))


def read_state(folder: RunFolder) -> RunState | None:
    """Return the state as it stands now, a dead supervisor's as `lost`; None when there is no such run.

    The lock is tested before the file is read: a supervisor writes its last state and lets go of the lock after that,
    so whoever finds the lock free reads that last state.
    """
    alive = folder.alive
    state = _load_state(folder.state)
    if state is None or state.phase.terminal or alive:
        return state
    return lost(state, _why_lost(folder, state)).model_copy(update={"ended_at": _last_sign(folder)})


def _why_lost(folder: RunFolder, state: RunState) -> str:
    if state.boot_id != boot_id():
        return "the machine was started anew while the run was on it"
    if not folder.reserve.exists():
        return "the disk was full, so that its supervisor could not write how it ended"
    return "the run's supervisor was killed"


def write_state(folder: RunFolder, state: RunState) -> None:
    """Write state.json: the last state also to a full disk, in the room that was kept for it since the submission.

    Raises:
        OSError: it can't be written.
    """
    data = state.model_dump(mode="json")
    try:
        write_json(folder.state, data)
    except OSError:
        if not (state.phase.terminal and folder.reserve.exists()):
            raise
        folder.reserve.unlink(missing_ok=True)
        write_json(folder.state, data)
    if state.phase.terminal:
        folder.reserve.unlink(missing_ok=True)


def _load_state(path: Path) -> RunState | None:
    """Parse the file once for each time that it was written: followers look up to five times a second."""
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _parse_state(path, (stat.st_ino, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=512)
def _parse_state(path: Path, written: tuple[int, int, int]) -> RunState | None:
    return _parse(RunState, read_json(path))


def _last_sign(folder: RunFolder) -> datetime:
    """Return when the run was last heard of: nobody saw its end, and its cost must not grow for ever."""
    signs = []
    for file in (folder.state, *folder.logs.glob("*.log")):
        with contextlib.suppress(FileNotFoundError):  # somebody deletes the run meanwhile
            signs.append(file.stat().st_mtime)
    return datetime.fromtimestamp(max(signs), UTC) if signs else datetime.now(UTC)


def lost(state: RunState, why: str) -> RunState:
    """Return the state of a run whose end nobody saw."""
    failure = Failure(
        category=FailureClass.LOST,
        summary=f"{state.ref.name} is lost: {why}.",
        hint="Nothing of it runs any more. Start it again; fault_tolerance with retry_on: [lost] does so by itself.",
        events=tuple(event.text for event in state.events[-5:]),
    )
    replicas = tuple(
        replica if replica.phase.terminal else replica.model_copy(update={"phase": Phase.LOST})
        for replica in state.replicas
    )
    return state.model_copy(
        update={"phase": Phase.LOST, "reason": why, "failure": failure, "replicas": replicas, "queue": None}
    )


def close_abandoned(folder: RunFolder, code: int) -> None:
    """Write the last state of a run whose supervisor ended with `code` before it could; nothing if it did."""
    state = _parse(RunState, read_json(folder.state))
    if state is None or state.phase.terminal:
        return
    cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    gone = lost(state, f"the run's supervisor {cause}")
    write_state(folder, gone.model_copy(update={"ended_at": datetime.now(UTC)}))


def _parse(model: type[_M], raw: Mapping[str, Any] | None) -> _M | None:
    if raw is None:
        return None
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None
