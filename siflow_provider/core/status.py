"""The words all layers share: phase, ref, status, failure, log line, outcome.

What crosses Airflow's database (`JobRef`, `LogCursor`, `Failure`) is a frozen pydantic model; the rest are plain
frozen dataclasses. Every moment is an aware UTC `datetime`, every length a number of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.veil import Veil

Kind = Literal["PyTorchJob", "RayJob"]
LogSelection = Literal["master", "all", "none"] | tuple[str, ...]
"""Whose lines to read: the master's (a RayJob's submitter), everyone's, nobody's, or the named replicas'."""


class Phase(StrEnum):
    """Where a run is."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """True when a run never leaves this phase."""
        return self in _TERMINAL


_TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.LOST})


class FailureClass(StrEnum):
    """Why a run did not succeed, in the words of the task form."""

    CODE = "code"
    OUT_OF_MEMORY = "out-of-memory"
    IMAGE = "image"
    DATA_PATH = "data-path"
    QUOTA = "quota"
    PREEMPTED = "preempted"
    NODE_LOST = "node-lost"
    HANG = "hang"
    TIMEOUT = "timeout"
    STOPPED_BY_USER = "stopped-by-user"
    LOST = "lost"
    PLATFORM = "platform"


class JobRef(Frozen):
    """Where one attempt of a run is: all that a process needs to find it again. Holds no secret.

    Attributes:
        backend: the backend's name, such as `local`.
        kind: the job's kind.
        name: the full name, such as `bert-3f9c1a7`.
        context: the kubeconfig context of its cluster; "" for the connection's own, or where there is none.
        namespace: the Kubernetes namespace; "" where there is none.
        api: the kind of the object in its cluster, where that is another one than the job's: `TrainJob`; else "".
        uid: the backend's own id of this very object; a new object of the same name has another.
        task_uuid: the run's own id (`TASK_UUID` in the task), the same for each attempt.
        attempt: number of this submission within the run, from 1.
    """

    backend: str
    kind: Kind
    name: str
    context: str = ""
    namespace: str = ""
    api: str = ""
    uid: str
    task_uuid: str
    attempt: int = 1

    @property
    def object_kind(self) -> str:
        """The kind of the object in its cluster."""
        return self.api or self.kind


class LogCursor(Frozen):
    """How far each replica's log has been read. Positions are the backend's own text; compare only for equality."""

    positions: dict[str, str] = {}

    def after(self, line: LogLine) -> LogCursor:
        """Return the cursor that stands behind `line`."""
        return LogCursor(positions={**self.positions, line.replica: line.position})


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one replica's output, without its line end.

    Attributes:
        replica: `master-0`, `worker-1`, `head-0`, `submitter-0`, ...
        text: the line; bytes that are not UTF-8 are replaced, a line over 16 KiB comes in several pieces.
        position: the cursor's text for "read up to and with this line".
        time: when the line was written, where the backend knows it.
        partial: True for each piece of a long line but the last: the line goes on in the replica's next one.
        remark: True for a word of the backend about the log (`lines may be missing`): shown, and no output of the run.
    """

    replica: str
    text: str
    position: str
    time: datetime | None = None
    partial: bool = False
    remark: bool = False


def main_replica(kind: Kind) -> str:
    """Return the replica that speaks for the run: the one that `master` selects and whose results count.

    Example:
        >>> main_replica("RayJob")
        'submitter-0'
    """
    return "master-0" if kind == "PyTorchJob" else "submitter-0"


def is_selected(replica: str, selection: LogSelection, kind: Kind) -> bool:
    """Say whether a replica's lines are asked for."""
    match selection:
        case "all":
            return True
        case "none":
            return False
        case "master":
            return replica == main_replica(kind)
        case names:
            return replica in names


class Failure(Frozen):
    """Why a run did not succeed, with the evidence.

    Attributes:
        category: the class, as `retry_on` names it.
        summary: one sentence with the fact.
        hint: what to do.
        replica: the first replica that failed, such as `worker-1`.
        rank: its rank (PyTorchJob: the machine's number).
        exit_code: its exit code; 128 + n for signal n.
        last_lines: its last log lines, oldest first, 20 at most.
        events: what the backend said around the failure, oldest first.
        transient: True when the same task could succeed on another try with nothing changed.
    """

    category: FailureClass
    summary: str
    hint: str = ""
    replica: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    transient: bool = False

    def describe(self) -> str:
        """Return the text for an exception: summary, evidence, last lines, what to do."""
        parts = [f"{self.category}: {self.summary}"]
        if self.events:
            parts.append("events:\n" + "\n".join(f"  {event}" for event in self.events))
        if self.last_lines:
            whose = f" of {self.replica}" if self.replica else ""
            parts.append(f"last lines{whose}:\n" + "\n".join(f"  {line}" for line in self.last_lines))
        if self.hint:
            parts.append(self.hint)
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica (pod or process group) as seen now.

    Attributes:
        name: `<role>-<index>`.
        role: master, worker, head or submitter.
        rank: PyTorchJob: 0 for the master, index + 1 for a worker; None for Ray.
        phase: queued, starting, running or a terminal phase.
        node: the machine it runs on.
        exit_code: set once it ended.
        reason: why it waits or ended, in plain words.
    """

    name: str
    role: str
    phase: Phase
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a run stands in its queue. `position` counts from 1 and is no promise; None when it can't be known."""

    queue: str
    position: int | None = None
    reason: str = ""
    requeues: int = 0

    def told(self, otherwise: str = "") -> str:
        """Return position and reason as one text, the position once; `otherwise` is a reason where there is no own.

        Example:
            >>> QueuePlace("gpu", 3, "needs 8 GPUs").told(), QueuePlace("gpu", 3, "place 3 in its queue").told()
            ('position 3: needs 8 GPUs', 'place 3 in its queue')
        """
        reason = self.reason or otherwise
        if self.position is None or reason.startswith(f"place {self.position} "):
            return reason
        return f"position {self.position}" + (f": {reason}" if reason else "")


@dataclass(frozen=True, slots=True)
class Event:
    """Something the backend said about a run; `warning` as Kubernetes means it."""

    time: datetime
    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """A whole snapshot of one attempt, so that a missed one costs nothing.

    Attributes:
        submitted_at, admitted_at, running_at, ended_at: moments reached so far. `admitted_at` is when the queue let
            it go (or, without a queue, when it was submitted); `running_at` when all replicas ran.
        queued_seconds: total time in the queue so far, requeues included.
        held_before: seconds admitted before the queue took the place back, all earlier stays together.
        gpus: GPUs held while admitted.
        stopped_by: who asked for the stop, for phase `stopped`.
        failure: set with `failed` and `lost`.
        failed_pulls: the largest number of failed image pulls of one pod.
        leftover: True when a terminal phase is the backend's own judgement and the run goes on holding its place:
            whoever follows it removes it, once its logs are read.
        owner: `X_USER_NAME` of the run; "" where nobody said who it is.
        private: True when only its owner shall see it (`visible_in_group: false`).
        timezone: IANA name, the form's: in which people want to read its times.
        veil: over the task's hidden values, for whoever shows the run's lines.
        moves: those before this attempt, as it was submitted with (`RenderContext.moves`).
        origin: the task instance that it belongs to; None for a run by hand, and of a run that is gone.
    """

    ref: JobRef
    phase: Phase
    reason: str = ""
    replicas: tuple[ReplicaStatus, ...] = ()
    queue: QueuePlace | None = None
    events: tuple[Event, ...] = ()
    submitted_at: datetime | None = None
    admitted_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    queued_seconds: float = 0.0
    held_before: float = 0.0
    gpus: float = 0.0
    stopped_by: str = ""
    failure: Failure | None = None
    failed_pulls: int = 0
    leftover: bool = False
    links: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    private: bool = False
    timezone: str = "UTC"
    veil: Veil = field(default_factory=Veil)
    moves: Moves = Moves()  # noqa: RUF009 - frozen
    origin: Origin | None = None

    def visible_to(self, user: str) -> bool:
        """Say whether `user` (a connection's login) shall see the run; who has no name is kept from nothing."""
        return not self.private or not user or not self.owner or user == self.owner

    def running_seconds(self, now: datetime) -> float:
        """Return the seconds between admission and the end (or `now`), earlier stays too: the time GPUs were held."""
        if self.admitted_at is None:
            return self.held_before
        return self.held_before + max(0.0, ((self.ended_at or now) - self.admitted_at).total_seconds())
