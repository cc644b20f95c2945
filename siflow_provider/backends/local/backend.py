"""The embedded backend: real processes on this machine, for laptops, CI and the first steps."""

from __future__ import annotations

import errno
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from siflow_provider.backends.local import launch as starter
from siflow_provider.backends.local.capacity import Amounts
from siflow_provider.backends.local.ledger import Ledger
from siflow_provider.backends.local.logs import LogFile, follow_files
from siflow_provider.backends.local.off_loop import off_loop
from siflow_provider.backends.local.pace import Pace
from siflow_provider.backends.local.quota import answer
from siflow_provider.backends.local.render import render_manifest, roles_of
from siflow_provider.backends.local.runs import Runs
from siflow_provider.backends.local.stacks import dump_replicas
from siflow_provider.backends.local.support import unsupported_fields, warning_lines
from siflow_provider.core.protocol import FoundRun
from siflow_provider.core.status import Phase, Status, is_selected
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable, UnsupportedError, UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.protocol import Manifest, RenderContext, TrainingBackend
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection
    from siflow_provider.core.trail import Trail
    from siflow_provider.errors import Reason
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["LocalBackend"]

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE})
"""Troubles of a file system that may pass; any other is of the folder itself."""


class LocalBackend:
    """Runs PyTorchJobs and RayJobs as processes of this machine (Linux only).

    Args:
        settings: the connection's; `state_dir` says where runs are kept.

    Example:
        async with LocalBackend(Settings(state_dir="/tmp/siflow")) as backend:
            ref = await backend.submit(backend.render(task, context))
    """

    name = "local"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Runs | None = None

    async def __aenter__(self) -> Self:
        """Open the state directory.

        Raises:
            UsageError: this is not Linux, or this user can't have the directory there.
            BackendUnavailable: it can't be made now.
        """
        if sys.platform != "linux":
            raise UsageError(
                f"the embedded backend (`local`) runs on Linux only, and this is {sys.platform}.",
                hint="Use a Linux machine or container, or a connection to a cluster.",
            )
        try:
            self._opened = await off_loop(Runs.open, self._settings.state_dir)
        except (AccessDenied, BackendUnavailable, RuntimeError) as error:
            if getattr(error.__cause__, "errno", None) in _PASSING:
                raise
            hint = "Choose another folder: `state_dir` of the connection, or SIFLOW_LOCAL_STATE_DIR."
            raise UsageError(f"the state folder can't be made: {error}", hint=hint) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened = None

    @property
    def _runs(self) -> Runs:
        if self._opened is None:
            raise UsageError("the backend is not open.", hint="Use it as `async with LocalBackend(...) as backend`.")
        return self._opened

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        """Return each field that this machine can't honour, with the reason."""
        return unsupported_fields(task)

    def warnings(self, task: ResolvedTask) -> list[str]:
        """Return what is honoured only in part, one sentence each."""
        return warning_lines(task)

    def render(self, task: ResolvedTask, context: RenderContext) -> Manifest:
        """Return the document that says what will be started."""
        reasons = self.unsupported(task)
        if reasons:
            raise UnsupportedError(reasons, backend=self.name)
        return render_manifest(task, context)

    async def submit(self, manifest: Manifest) -> JobRef:
        """Start the run, or return the one of the same identity."""
        return await off_loop(starter.launch, self._runs.state, manifest)

    async def find(self, identity: Identity, *, trail: Trail | None = None) -> JobRef | None:
        """Return this attempt of the run, by its labels."""
        return await off_loop(self._runs.find, identity)

    async def find_latest(self, run: Identity | JobRef, *, trail: Trail | None = None) -> JobRef | None:
        """Return the newest attempt of the run; there is one place to look, and its id leads there."""
        return await off_loop(self._runs.find_latest, run.task_uuid)

    async def find_each(self, runs: Sequence[Identity], *, trail: Trail | None = None) -> list[FoundRun | None]:
        """Return the newest attempt of each run; a deletion is over at once here."""
        found = [await off_loop(self._runs.find_latest, run.task_uuid) for run in runs]
        return [None if ref is None else FoundRun(ref) for ref in found]

    async def status(self, ref: JobRef) -> Status:
        """Return the whole snapshot."""
        return (await off_loop(self._runs.state_of, ref)).status()

    async def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        """Yield snapshots as they change, the terminal one last."""
        before: Status | None = None
        pace = Pace()
        while True:
            now = await self._look(ref)
            changed = before is None or _differs(now, before)
            if changed:
                before = now
                yield now
            if now.phase.terminal:
                return
            await pace.rest(changed=changed)

    async def _look(self, ref: JobRef) -> Status:
        """Return the snapshot, or `unknown` when the files can't be read now (no descriptors left, a full disk)."""
        try:
            return await self.status(ref)
        except BackendError as error:
            return Status(ref, Phase.UNKNOWN, reason=str(error))

    async def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        """Yield the lines behind `cursor`, in order per replica.

        Raises:
            UsageError: a replica is named that the run does not have.
        """
        names = await off_loop(self._runs.replica_names, ref)
        unknown = [name for name in selection if name not in names] if isinstance(selection, tuple) else []
        if names and unknown:  # of a run that is gone nothing is known any more
            raise UsageError(f"{ref.name} has no replica {unknown[0]!r}.", hint=f"It has: {', '.join(names)}.")
        folder = self._runs.state.run(ref.name)
        veil = (await off_loop(self._runs.state_of, ref)).veil
        files = [
            LogFile(name, folder.logs / f"{name}.log", int(cursor.positions.get(name, "0")), veil)
            for name in names
            if is_selected(name, selection, ref.kind)
        ]

        async def ended() -> bool:
            return (await off_loop(self._runs.state_of, ref)).phase.terminal

        async for line in follow_files(files, ended, follow=follow):
            yield line

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        """Ask the supervisor to end the run and wait until all of it is gone."""
        await self._runs.stop(ref, by, wait=wait)

    async def delete(self, ref: JobRef) -> None:
        """Stop the run if need be and remove its folder."""
        await self._runs.stop(ref, "the deletion of the run")
        await off_loop(self._runs.remove, ref)

    async def finish(self, ref: JobRef) -> None:
        """Have the run's data on shared storage removed where the form says so, once nothing of the run is alive."""
        await off_loop(self._runs.finish, ref)

    async def find_named(self, name: str) -> list[Status]:
        """Return the run of that name, where there is one."""
        return await off_loop(self._runs.find_named, name)

    async def runs(self) -> list[Status]:
        """Return every run here, newest first."""
        return await off_loop(self._runs.all)

    async def dump_stacks(self, ref: JobRef) -> dict[str, str]:
        """Return py-spy's dump per replica, or the reason why there is none."""
        state = await off_loop(self._runs.state_of, ref)
        return {} if state.phase.terminal else await dump_replicas(state.replicas)

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        """Return the four answers for the whole task on this machine; `idle` costs nothing here."""
        usage = await off_loop(Ledger(self._runs.state).usage)
        sizes = tuple(Amounts.of(role["resources"]) for role in roles_of(task) for _ in range(role["count"]))
        return answer(sum(sizes, Amounts()), sizes, usage)


def _differs(now: Status, before: Status) -> bool:
    """Compare two snapshots but for the seconds in the queue, which grow by themselves."""
    return replace(now, queued_seconds=before.queued_seconds) != before


if TYPE_CHECKING:
    _: type[TrainingBackend] = LocalBackend
