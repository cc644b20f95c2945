"""What a backend must do. Structural typing: a backend inherits nothing; mypy pins each class to the protocol.

A backend is an async context manager; whoever opens it closes it. It belongs to the event loop that opened it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, Status

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.core.trail import Trail
    from siflow_provider.errors import Reason
    from siflow_provider.spec.hidden import Hidden
    from siflow_provider.spec.resolve import ResolvedTask


@dataclass(frozen=True, slots=True)
class RenderContext:
    """What a manifest needs beside the task.

    Attributes:
        identity: whose run this is, and which attempt.
        user_name: `X_USER_NAME`: the connection's login, else the DAG's owner.
        queued: True when the cluster has a queue (Kueue): the job is created suspended, with its queue label.
        moves: what `Status.moves` of this attempt tells.
        detached: the run shall go on when its task is killed.
        last_net_seconds: after how much running time the cluster itself shall end the run, where it can: nobody may be
            left that watches the clock. None for no such limit.
        instance: Airflow's own id of the task instance; "" for a run by hand.
    """

    identity: Identity
    user_name: str = ""
    queued: bool = True
    moves: Moves = Moves()  # noqa: RUF009 - frozen
    detached: bool = False
    last_net_seconds: int | None = None
    instance: str = ""

    @property
    def origin(self) -> Origin | None:
        """What `Status.origin` of this run tells."""
        return Origin.of_identity(self.identity, detached=self.detached, instance=self.instance)

    def annotations(self) -> dict[str, str]:
        """Return what is written beside the labels: the ids as Airflow knows them, a detachment, and earlier moves."""
        beside = Origin.annotations(detached=self.detached, instance=self.instance)
        return {**self.identity.annotations(), **beside, **self.moves.annotations()}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What would be submitted; the same task and context give the same manifest, byte for byte.

    Attributes:
        task: the task it was rendered from.
        context: the context it was rendered with.
        name: the job's full name.
        documents: the objects, JSON types only, in the order in which they are created. Hidden values are not here:
            where one belongs stands a reference (`secretKeyRef`) or its name.
        hidden: env name -> hidden value, sent apart.
    """

    task: ResolvedTask
    context: RenderContext
    name: str
    documents: tuple[Mapping[str, Any], ...]
    hidden: Mapping[str, Hidden] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that was looked for.

    Attributes:
        ref: its newest attempt.
        leaving: it has been deleted, and something of it is still there.
    """

    ref: JobRef
    leaving: bool = False


class QuotaSource(Protocol):
    """Answers whether a task can fit; a backend without quotas simply lacks it."""

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        """Return the four answers of `core.quota` for the whole task.

        Args:
            task: the resolved task, asked for on its first flavor.
            idle: False leaves the answer about idle nodes unknown where it costs a look at every pod of a cluster.
        """
        ...


class Backend(Protocol):
    """The life of a run on one kind of machinery."""

    name: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        """Return each field that this backend can't honour, with the reason. Pure."""
        ...

    def warnings(self, task: ResolvedTask) -> list[str]:
        """Return what is honoured only in part (such as an image that `local` ignores), one sentence each. Pure."""
        ...

    def render(self, task: ResolvedTask, context: RenderContext) -> Manifest:
        """Return what `submit` would send. Pure.

        Raises:
            UnsupportedError: the task has fields that `unsupported` names.
        """
        ...

    async def submit(self, manifest: Manifest) -> JobRef:
        """Create the run, or return the one that exists for the same identity.

        Raises:
            NameTaken: an object of that name belongs to somebody else.
        """
        ...

    async def find(self, identity: Identity, *, trail: Trail | None = None) -> JobRef | None:
        """Return this very attempt of a run, by its labels; None when it was never submitted or has been deleted."""
        ...

    async def find_latest(self, run: Identity | JobRef, *, trail: Trail | None = None) -> JobRef | None:
        """Return the newest attempt of a run, by its `task_uuid`, whatever attempt is given.

        Args:
            run: which.
            trail: where to look, and by which names where its labels can't be searched for; None: everywhere, and all
                places must answer.

        Raises:
            BackendError: nothing is found, and a place that may hold the run gave no answer.
        """
        ...

    async def find_each(self, runs: Sequence[Identity], *, trail: Trail | None = None) -> list[FoundRun | None]:
        """Return the newest attempt of each run, in their order, and None for one that is not there.

        Unlike `find_latest` it also tells of a run that is being deleted while something of it is still there.

        Args:
            runs: which; a few.
            trail: as for `find_latest`.

        Raises:
            BackendError: as for `find_latest`.
        """
        ...

    async def status(self, ref: JobRef) -> Status:
        """Return the whole snapshot; phase `lost` when the run is gone without a stop of ours or a terminal state."""
        ...

    def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        """Yield snapshots as they change, the terminal one last. Never raises for a passing fault: yields `unknown`."""
        ...

    def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        """Yield the lines behind `cursor` as they come, in order per replica; end when all of an ended run is read.

        With `follow=False` end when all that is there now is read.
        """
        ...

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        """End the run's work; `by` says who asked, in plain words. Idempotent, in every phase.

        With `wait=False` return as soon as the run will end by it, its processes still there: by the fewest requests.
        """
        ...

    async def delete(self, ref: JobRef) -> None:
        """Remove the run and what belongs to it, stopping it first where it still runs. Idempotent."""
        ...

    async def find_named(self, name: str) -> list[Status]:
        """Return every run whose full name is exactly this one, newest first; [] for a text that is no name at all.

        One request or two, however many runs there are: somebody may ask again and again until the run appears.
        """
        ...

    async def finish(self, ref: JobRef) -> None:
        """Do what is left to do once the last attempt of a run has ended, whatever its end. Idempotent.

        Called by whoever knows that no further attempt follows. It removes what the form says is to be removed, such
        as the run's data on shared storage; that may take place later, after the time for which a cluster is kept.

        Args:
            ref: the last attempt.
        """
        ...

    async def runs(self) -> list[Status]:
        """Return every run of ours on this backend, newest first."""
        ...

    async def dump_stacks(self, ref: JobRef) -> dict[str, str]:
        """Return a stack dump per replica name for a run that seems to hang; {} where none can be had."""
        ...


class TrainingBackend(Backend, QuotaSource, Protocol):
    """A backend that also answers for quota: what the hook hands out."""
