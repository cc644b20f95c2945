"""What the supervisor asks of the thing that runs a job: a gang of processes, or a Ray cluster.

The supervisor is one plain synchronous process with one thread: it waits for admission, then calls `start`, `poll` and
`stop` of one runner. A runner starts processes through `Launch.processes` only, so that none of them can outlive the
supervisor, and it never blocks for longer than about a second: what takes time is a step between two polls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from siflow_provider.core.status import ReplicaStatus

if TYPE_CHECKING:
    from siflow_provider.backends.local.processes import Processes

__all__ = ["Ending", "Launch", "Runner", "RunnerState"]


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a runner needs to start one attempt.

    Attributes:
        name: the job's full name.
        uid: the run's own id on this machine.
        document: the rendered document: command, replicas, `ray`, ... Each of its `replicas` also has its size in
            numbers (`cores`, `memory` in bytes, `gpus`), and `machine_gpus` counts the GPUs of the machine.
        folder: the run's folder; a runner may keep files of its own in `folder / "work"`.
        directory: where the job's processes start (their working directory).
        env: the whole environment of a replica, hidden values included, but for what differs between replicas.
        prefix: words to put before each argv, so that the processes see the task's mounts; often empty.
        gpus: numbers of the machine's GPUs that this attempt holds.
        processes: starts and ends processes; the only way to start one.
        event: tells the run's events: `event("worker 1 joined")`, `event("...", warning=True)`.
    """

    name: str
    uid: str
    document: Mapping[str, Any]
    folder: Path
    directory: Path
    env: Mapping[str, str]
    prefix: tuple[str, ...]
    gpus: tuple[int, ...]
    processes: Processes
    event: Callable[..., None]

    def log(self, replica: str) -> Path:
        """Return the file that takes the output of `replica`, such as `logs/worker-1.log`."""
        return self.folder / "logs" / f"{replica}.log"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the job's own work ended.

    Attributes:
        succeeded: True when all of it ended well.
        replica: the first replica that failed.
        rank: its rank; None for Ray.
        exit_code: its exit code; 128 + n for signal n; None when it never started.
        summary: the fact in one sentence, where it is more than an exit code; "" else.
    """

    succeeded: bool
    replica: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class RunnerState:
    """A whole snapshot of what runs.

    Attributes:
        replicas: every replica in order of role and index; all in phase running = the run is running.
        pids: replica name -> process id of its first process, for stack dumps.
        ending: set once the work has ended, one way or the other.
        finished: True when nothing more is to come; False after `ending` while a Ray cluster is kept for debugging.
        links: name -> URL, such as the Ray dashboard.
        reason: what it waits for, in plain words.
    """

    replicas: tuple[ReplicaStatus, ...]
    pids: Mapping[str, int] = field(default_factory=dict)
    ending: Ending | None = None
    finished: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


class Runner(Protocol):
    """One kind of job. Made with a `Launch`; used by one thread."""

    def start(self) -> None:
        """Begin to start everything; may return before it runs. An error ends the run as failed (platform)."""
        ...

    def poll(self) -> RunnerState:
        """Take the next step, if one is due, and return the snapshot. Called about five times a second."""
        ...

    def stop(self, grace_seconds: float) -> None:
        """End all that runs, politely first; the supervisor kills what is left after that. Idempotent."""
        ...
