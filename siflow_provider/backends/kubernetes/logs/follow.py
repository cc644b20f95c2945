"""All replicas of a run read at once, each by one connection, and their lines as one stream.

Readers wait when the lines are not taken, so what is held is bounded whatever the containers print. Pods are read as
they come: those that do not exist yet, and those that are created again after a preemption, which are marked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.resources import PODS, RAYJOBS
from siflow_provider.backends.kubernetes.logs.contact import Contact
from siflow_provider.backends.kubernetes.logs.position import Position
from siflow_provider.backends.kubernetes.logs.reader import PodReader, Reading
from siflow_provider.backends.kubernetes.logs.view import PodView
from siflow_provider.backends.kubernetes.state.objects import Object, dig, uid
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, Phase, Status, is_selected
from siflow_provider.errors import BackendUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.backends.kubernetes.cluster.shared import Cluster

__all__ = ["read_logs"]

_BATCHES = 8
"""Blocks of lines, read and not yet taken, of all replicas together; each reader holds one more."""


async def read_logs(
    cluster: Cluster,
    ref: JobRef,
    selection: LogSelection,
    cursor: LogCursor,
    *,
    follow: bool,
    statuses: AsyncIterator[Status],
) -> AsyncIterator[LogLine]:
    """Yield the lines behind `cursor`, each once, in order per replica; end when all of an ended run is read.

    Close it when you leave early: no connection stays open then.

    Args:
        cluster: where the run is.
        ref: the run's attempt.
        selection: whose lines.
        cursor: positions that lines of an earlier reading carried.
        follow: False to end when all that is there now is read.
        statuses: the run's snapshots, the terminal one last; closed here.

    Raises:
        UsageError: a replica is named that the run does not have.
        BackendUnavailable: no replica can be read at the moment.
        AccessDenied: the credentials may not read logs.
    """
    merge = _Merge(cluster, ref, selection, cursor, follow=follow)
    work = asyncio.create_task(merge.run(statuses))
    try:
        while (batch := await merge.batches.get()) is not None:
            for line in batch:
                yield line
            await asyncio.sleep(0)
        if merge.error is not None:
            raise merge.error
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class _Merge:
    """The readers of one run."""

    def __init__(
        self, cluster: Cluster, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool
    ) -> None:
        self.batches: asyncio.Queue[list[LogLine] | None] = asyncio.Queue(_BATCHES)
        self._cluster, self._ref, self._selection, self._follow = cluster, ref, selection, follow
        self._pods = cluster.store(PODS, ref.namespace)
        self._jobs = cluster.store(RAYJOBS, ref.namespace) if ref.kind == "RayJob" else None
        self._view = PodView(ref, self._pods, self._jobs)
        self._contact = Contact()
        self._positions = {name: at for name, text in cursor.positions.items() if (at := Position.parse(text))}
        self._waiting: dict[str, deque[str]] = {}
        self._known: set[str] = set()
        self._heard_of: set[str] = set()
        self._readers: dict[str, PodReader] = {}
        self._news = asyncio.Event()
        self.error: Exception | None = None

    async def run(self, statuses: AsyncIterator[Status]) -> None:
        """Read; put None into `batches` when there is no more, and the reason into `error` when it is one."""
        try:
            await self._run(statuses)
        except Exception as error:
            self.error = _first(error)
        await self.batches.put(None)

    async def _run(self, statuses: AsyncIterator[Status]) -> None:
        async with AsyncExitStack() as stack:
            snapshots = await stack.enter_async_context(closing_stream(statuses))
            await self._await_begin(snapshots)
            reading = self._reading_of(self._last)
            await self._subscribe(stack, self._last)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            watching = [group.create_task(self._look()), group.create_task(self._await_end(snapshots))]
            await self._conduct(group, reading)
            for task in watching:
                task.cancel()
            await self._tell_unseen()

    async def _await_begin(self, snapshots: AsyncIterator[Status]) -> None:
        """Wait until there may be pods: of thousands in a queue each costs its place alone.

        And until there is an answer: before that nobody knows which pods there are to read.
        """
        async for self._last in snapshots:
            self._check_names(self._last)
            unknown = self._last.phase is Phase.UNKNOWN
            if unknown and not self._follow:
                why = self._last.reason
                raise BackendUnavailable(f"the replicas of {self._ref.name} are not known now: {why}")
            if not self._follow or not (unknown or _waits_for_the_first_time(self._last)):
                return

    def _check_names(self, status: Status) -> None:
        if status.phase.terminal:
            self._view.end()
        names = [replica.name for replica in status.replicas]
        wanted = self._selection if isinstance(self._selection, tuple) else ()
        unknown = [name for name in wanted if name not in names]
        if names and unknown:  # of a run that is gone nothing is known any more
            raise UsageError(f"{self._ref.name} has no replica {unknown[0]!r}.", hint=f"It has: {', '.join(names)}.")

    async def _subscribe(self, stack: AsyncExitStack, status: Status) -> None:
        """Look at the pods, one by one where they can't be listed: a PyTorchJob's have names that are known."""
        stores = [self._pods] if self._jobs is None else [self._pods, self._jobs]
        for store in stores:
            await store.ready()
        names = [""]
        if self._pods.alone is not None and self._ref.object_kind == "PyTorchJob":
            names = [f"{self._ref.name}-{replica.name}" for replica in status.replicas]
        for name in names:
            await stack.enter_async_context(self._pods.subscribe(self._view.key, name=name, wake=self._news))
        if self._pods.alone is not None and isinstance(self._pods.fault, Denied):
            raise self._pods.fault  # no pod can be seen: an empty log would look like a silent run

    async def _look(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._view.refresh()

    async def _await_end(self, snapshots: AsyncIterator[Status]) -> None:
        if self._follow:
            async for self._last in snapshots:
                if self._last.phase.terminal:
                    break
            self._view.end()

    def _reading_of(self, status: Status) -> Reading:
        api, namespace, put = self._cluster.api, self._ref.namespace, self.batches.put
        return Reading(api, namespace, self._view, self._contact, put, self._follow, status.veil)

    async def _conduct(self, group: asyncio.TaskGroup, reading: Reading) -> None:
        """Start a reader for each pod as it comes, and return when there is nothing left to read."""
        self._view.refresh()
        while True:
            self._take_pods()
            for reader in self._readers.values():
                reader.nudge()
            for replica, pods in self._waiting.items():
                if pods and replica not in self._readers:
                    reader = PodReader(reading, pods[0], replica, self._position_of(pods[0], replica))
                    self._readers[replica] = reader
                    group.create_task(self._read(reader, replica, pods.popleft()))
            if not self._readers and (self._view.ended or not self._follow):
                return
            await self._view.changed()

    def _take_pods(self) -> None:
        for pod, replica in self._view.names().items():
            if pod not in self._known and is_selected(replica, self._selection, self._ref.kind):
                self._known.add(pod)
                self._heard_of.add(replica)
                self._waiting.setdefault(replica, deque()).append(pod)

    async def _tell_unseen(self) -> None:
        """Say whose pod was gone before anybody looked: when a run fails its operator puts out who still runs."""
        last = self._last
        if self._ref.kind != "PyTorchJob" or last.running_at is None or not last.phase.terminal:
            return
        if not self._view.names():  # the whole run was deleted: nobody expects lines of it
            return
        for replica in (each.name for each in last.replicas):
            unseen = replica not in self._heard_of and replica not in self._positions
            if unseen and is_selected(replica, self._selection, self._ref.kind):
                text = f"--- {replica}: its pod was gone before its log could be read ---"
                await self.batches.put([LogLine(replica, text, str(Position("gone")), remark=True)])

    def _position_of(self, pod: str, replica: str) -> Position | None:
        """Return how far the pod was read: Ray's workers are numbered anew when one of them goes."""
        own = self._positions.get(replica)
        if own is not None and own.uid == pod:
            return own
        return next((at for at in self._positions.values() if at.uid == pod), None)

    async def _read(self, reader: PodReader, replica: str, pod: str) -> None:
        before = self._positions.get(replica)
        if before is not None and before.uid != pod and reader.position is None:
            await self.batches.put([_begins_anew(replica, self._view.pod(pod), gap=before.uid not in self._known)])
        try:
            await reader.run()
        finally:
            if reader.position is not None:
                self._positions[replica] = reader.position
            del self._readers[replica]
            self._view.tell()


def _waits_for_the_first_time(status: Status) -> bool:
    """Say whether the run is in a queue that never let it go: one that was put back may have left pods behind."""
    if status.phase is not Phase.QUEUED or status.queue is None:
        return False
    return not status.queue.requeues and not status.held_before and status.admitted_at is None


def _begins_anew(replica: str, pod: Object, *, gap: bool) -> LogLine:
    created = dig(pod, "metadata", "creationTimestamp")
    missing = "; last lines of the pod before may be missing" if gap else ""
    text = f"--- {replica}: begins anew in a pod that was created at {created}{missing} ---"
    return LogLine(replica, text, str(Position(uid(pod))), remark=True)


def _first(error: Exception) -> Exception:
    """Return one of the errors of a group: readers fail for the same reason."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
