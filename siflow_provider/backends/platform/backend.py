"""The platform backend: tasks through SiFlow's own REST API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.backends.platform.follow_logs import LogFollower
from siflow_provider.backends.platform.logs import LogReader
from siflow_provider.backends.platform.mark import read_mark
from siflow_provider.backends.platform.matches import groups, leader
from siflow_provider.backends.platform.observe import Observer
from siflow_provider.backends.platform.overrides import check_overrides
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.place import Place, open_place
from siflow_provider.backends.platform.quota import answer_quota
from siflow_provider.backends.platform.render import render_manifest
from siflow_provider.backends.platform.state import phase_of, status_of
from siflow_provider.backends.platform.submit import find_run, submit
from siflow_provider.backends.platform.support import unsupported_fields, warning_lines
from siflow_provider.backends.platform.wire import Brief
from siflow_provider.core.identity import Identity, is_job_name
from siflow_provider.core.protocol import FoundRun
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import BackendUnavailable, UnsupportedError, UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.protocol import Manifest, RenderContext, TrainingBackend
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.core.status import LogCursor, LogLine, LogSelection
    from siflow_provider.core.trail import Trail
    from siflow_provider.errors import Reason
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["PlatformBackend"]

_STOP_POLL_SECONDS = 1.0


class PlatformBackend:
    """Runs tasks on a SiFlow platform.

    Args:
        settings: the connection's: host = base URL, login = access key id, password = its secret, region, cluster.
        pace: how often the platform is asked.

    Raises:
        UsageError: an override of the connection that would do nothing.

    Example:
        async with PlatformBackend(settings) as backend:
            ref = await backend.submit(backend.render(task, context))
    """

    name = "platform"

    def __init__(self, settings: Settings, pace: Pace | None = None) -> None:
        check_overrides(settings.body_overrides, settings.api_overrides)
        self._settings, self._pace = settings, pace or Pace()
        self._stack = AsyncExitStack()
        self._opened: tuple[Place, LogReader, Observer] | None = None

    async def __aenter__(self) -> Self:
        """Open the connection, shared with every other backend of it in this event loop.

        Raises:
            UsageError: the connection lacks the base URL, the key pair, region or cluster.
        """
        place = await self._stack.enter_async_context(open_place(self._settings, self._pace))
        logs = LogReader(place.client, self._settings.api_overrides.get("logs"))
        self._opened = place, logs, Observer(place, logs)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened = None
        await self._stack.aclose()

    @property
    def place(self) -> Place:
        """The opened connection.

        Raises:
            UsageError: the backend is not open.
        """
        return self._open[0]

    @property
    def _open(self) -> tuple[Place, LogReader, Observer]:
        if self._opened is None:
            raise UsageError("the backend is not open.", hint="Use it as `async with PlatformBackend(...) as backend`.")
        return self._opened

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        """Return each field that the platform can't honour, with the reason."""
        return unsupported_fields(task, self._settings)

    def warnings(self, task: ResolvedTask) -> list[str]:
        """Return what is honoured only in part, one sentence each."""
        return warning_lines(task, self._settings)

    def render(self, task: ResolvedTask, context: RenderContext) -> Manifest:
        """Return the create body."""
        reasons = self.unsupported(task)
        if reasons:
            raise UnsupportedError(reasons, backend=self.name)
        return render_manifest(task, context, self._settings)

    async def submit(self, manifest: Manifest) -> JobRef:
        """Create the run, or return the one of the same identity."""
        return await submit(self.place, manifest)

    async def find(self, identity: Identity, *, trail: Trail | None = None) -> JobRef | None:
        """Return this attempt of the run, by the mark that its task carries."""
        group = (await find_run(self.place, identity.task_uuid, identity.suffix)).get(
            (identity.task_uuid, identity.attempt)
        )
        if not group:
            return None
        mark, task = await self.place.twins.keep_one(group)
        return mark.ref(task.uuid)

    async def find_latest(self, run: Identity | JobRef, *, trail: Trail | None = None) -> JobRef | None:
        """Return the newest attempt of the run; there is one place to look, and its id leads there."""
        hint = run.suffix if isinstance(run, Identity) else _suffix(run)
        found = await find_run(self.place, run.task_uuid, hint)
        if not found:
            return None
        mark, task = await self.place.twins.keep_one(found[max(found)])
        return mark.ref(task.uuid)

    async def find_each(self, runs: Sequence[Identity], *, trail: Trail | None = None) -> list[FoundRun | None]:
        """Return the newest attempt of each run; a deletion is over at once here."""
        found = groups(await self.place.tasks.named(*(run.suffix for run in runs)))
        newest = {key[0]: found[key] for key in sorted(found)}
        there = [newest.get(run.task_uuid) for run in runs]
        kept = [None if group is None else await self.place.twins.keep_one(group) for group in there]
        return [None if one is None else FoundRun(one[0].ref(one[1].uuid)) for one in kept]

    async def find_named(self, name: str) -> list[Status]:
        """Return every run of exactly that name, newest first, its replicas and failure looked at."""
        if not is_job_name(name):
            return []
        tasks = [task for task in await self.place.tasks.named(name) if _bears(task, name)]
        return [await self._closer(status, tasks) for status in self._listed(tasks)]

    async def _closer(self, status: Status, tasks: list[Brief]) -> Status:
        """Return the snapshot with replicas and failure; what was listed when these can't be read now."""
        task = next(task for task in tasks if task.uuid == status.ref.uid)
        try:
            return await self._open[2].snapshot(status.ref, task, fresh=True)
        except BackendUnavailable:
            return status

    async def runs(self) -> list[Status]:
        """Return every run of ours that the access key may see, newest first; replicas are not looked at."""
        return self._listed(await self.place.tasks.everything())

    def _listed(self, tasks: list[Brief]) -> list[Status]:
        now, memory = datetime.now(UTC), self.place.memory
        found = []
        for group in groups(tasks).values():
            mark, task = leader(group)
            ref = mark.ref(task.uuid)
            status = memory.ended.get(task.uuid) or status_of(
                ref, task, mark, pods=(), now=now, stopped_by=memory.stops.get(task.uuid, "")
            )
            found.append((task.create_time or now, status))
        return [status for _, status in sorted(found, key=lambda item: item[0], reverse=True)]

    async def status(self, ref: JobRef) -> Status:
        """Return the whole snapshot, by one request for the task and one for its pods."""
        return await self._open[2].look(ref)

    async def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        """Yield snapshots as they change, the terminal one last; all watched runs share one listing."""
        place, _, observer = self._open
        ended = place.memory.ended.get(ref.uid)
        if ended is not None:
            yield ended
            return
        before: Status | None = None
        async with place.poller.watching(ref) as feed:
            async for look in feed.looks():
                now = await _seen(observer, ref, look)
                if before is None or replace(now, queued_seconds=before.queued_seconds) != before:
                    before = now
                    yield now
                if now.phase.terminal:
                    return

    async def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        """Yield the lines behind `cursor`, in order per replica; none where the connection can't read logs."""
        place, reader, observer = self._open
        async for line in LogFollower(place, reader, observer, ref, selection, cursor).lines(follow=follow):
            yield line

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        """Ask for the end of the run and wait for it; without `wait` it is not looked whether it has ended already.

        Raises:
            BackendUnavailable: it has not ended in time.
        """
        place = self.place
        if ref.uid in place.memory.ended:
            return
        if not wait:
            place.memory.stops.setdefault(ref.uid, by)
            await place.tasks.stop(ref.uid)
            return
        deadline, pause, asked = time.monotonic() + place.pace.stopping, min(0.1, place.pace.listing), False
        while (task := await self._unended(ref)) is not None:
            if not asked:
                place.memory.stops.setdefault(ref.uid, by)
                await place.tasks.stop(ref.uid)
                asked = True
            if time.monotonic() > deadline:
                raise BackendUnavailable(
                    f"{ref.name} was asked to stop and is {task.status!r} after {place.pace.stopping:g} s.",
                    hint="The platform may still end it; ask again later.",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _STOP_POLL_SECONDS)

    async def _unended(self, ref: JobRef) -> Brief | None:
        """Return the task while it lives; None when it has ended or is gone."""
        try:
            task = await self.place.tasks.get(ref.uid)
        except NotFound:
            return None
        if not phase_of(task.status).terminal:
            return task
        self.place.poller.show(task)
        return None

    async def delete(self, ref: JobRef) -> None:
        """Stop the run if need be, keep its last snapshot in this process, and remove it from the platform."""
        await self.stop(ref, by="the deletion of the run")
        if not (await self.status(ref)).phase.terminal:
            return  # it is gone, and was never seen here
        await self.place.tasks.delete(ref.uid)

    async def finish(self, ref: JobRef) -> None:
        """Do nothing: a run on the platform leaves nothing behind that it said to remove."""

    async def dump_stacks(self, ref: JobRef) -> dict[str, str]:
        """Return nothing: of the platform only an interactive terminal is known."""
        return {}

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        """Return the four answers for the whole task in its pool; `idle` asks for nodes where they can be asked for."""
        return await answer_quota(self.place.client, task, self._settings, idle=idle)


def _suffix(ref: JobRef) -> str:
    """Return the run's own ending of its name."""
    base = ref.name.removesuffix(f"-{ref.attempt}") if ref.attempt > 1 else ref.name
    return base.rpartition("-")[2]


def _bears(task: Brief, name: str) -> bool:
    mark = read_mark(task)
    return mark is not None and mark.name == name


async def _seen(observer: Observer, ref: JobRef, look: object) -> Status:
    """Return the snapshot of what the listing showed; a passing fault is `unknown`."""
    if look is None:
        return observer.gone(ref)
    if isinstance(look, Brief):
        try:
            return await observer.snapshot(ref, look)
        except BackendUnavailable as error:
            return Status(ref, Phase.UNKNOWN, reason=str(error))
    if isinstance(look, BackendUnavailable):
        return Status(ref, Phase.UNKNOWN, reason=str(look))
    assert isinstance(look, BaseException)
    raise look


if TYPE_CHECKING:
    _: type[TrainingBackend] = PlatformBackend
