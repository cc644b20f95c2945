"""From what the platform says about a task to the snapshot: pods are asked for when they can have changed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.backends.platform.mark import Mark, read_mark, read_veil
from siflow_provider.backends.platform.matches import groups
from siflow_provider.backends.platform.state import failed_first, lost, phase_of, replicas_of, status_of
from siflow_provider.core.diagnosis import MAX_LAST_LINES, Evidence, diagnose
from siflow_provider.core.status import Phase, Status
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siflow_provider.backends.platform.logs import LogReader
    from siflow_provider.backends.platform.place import Place
    from siflow_provider.backends.platform.wire import Brief, Pod
    from siflow_provider.core.status import Failure, JobRef
    from siflow_provider.core.veil import Veil

__all__ = ["Observer"]


class Observer:
    """Makes snapshots of the runs of one connection.

    Args:
        place: the connection, opened.
        logs: for the last lines of a failed replica.
    """

    def __init__(self, place: Place, logs: LogReader) -> None:
        self._place, self._logs = place, logs
        self._first_asked: dict[str, float] = {}

    async def look(self, ref: JobRef) -> Status:
        """Ask the platform about a run now.

        Raises:
            BackendError: it gives no answer, or refuses.
        """
        ended = self._place.memory.ended.get(ref.uid)
        if ended is not None:
            return ended
        try:
            task = await self._place.tasks.get(ref.uid)
        except NotFound:
            return self._missing(ref)
        return await self.snapshot(ref, await self._counting(ref, task), fresh=True)

    async def snapshot(self, ref: JobRef, task: Brief, *, fresh: bool = False) -> Status:
        """Return the snapshot of a task that was just read; with `fresh` its pods are read as well."""
        memory = self._place.memory
        if (ended := memory.ended.get(ref.uid)) is not None:
            return ended
        self._first_asked.pop(ref.uid, None)
        phase = phase_of(task.status)
        mark = read_mark(task) or Mark(run=ref.task_uuid, attempt=ref.attempt, name=ref.name, kind=ref.kind)
        pods = await self._pods_of(task, phase, fresh=fresh)
        failure = await self._failure(ref, task, mark, pods) if phase is Phase.FAILED else None
        status = status_of(
            ref,
            task,
            mark,
            pods=pods,
            now=datetime.now(UTC),
            stopped_by=memory.stops.get(task.uuid, ""),
            failure=failure,
        )
        if status.phase.terminal:
            self._forget(ref.uid)
            memory.stops.pop(task.uuid, None)
            return memory.ended.setdefault(ref.uid, status)
        if status.phase is not Phase.UNKNOWN:
            memory.known[ref.uid] = status
        return status

    def gone(self, ref: JobRef) -> Status:
        """Return the last snapshot of a run that the platform no longer knows."""
        memory = self._place.memory
        ended = memory.ended.get(ref.uid)
        if ended is not None:
            return ended
        self._forget(ref.uid)
        memory.ended[ref.uid] = status = lost(ref, memory.known.pop(ref.uid, None))
        return status

    def _missing(self, ref: JobRef) -> Status:
        """A task that was never seen here may be so new that the platform does not show it yet."""
        if ref.uid not in self._place.memory.known:
            first = self._first_asked.setdefault(ref.uid, time.monotonic())
            if time.monotonic() - first < self._place.pace.visible:
                return Status(ref, Phase.UNKNOWN, reason="the platform does not show the task yet")
        return self.gone(ref)

    async def _counting(self, ref: JobRef, task: Brief) -> Brief:
        """Return the task itself, or, where it was stopped as the second of two, the one that was kept."""
        if phase_of(task.status) is not Phase.STOPPED or task.uuid in self._place.memory.stops:
            return task
        same = groups(await self._place.tasks.named(ref.name)).get((ref.task_uuid, ref.attempt), [])
        return (await self._place.twins.keep_one(same))[1] if len(same) > 1 else task

    def _forget(self, uid: str) -> None:
        self._first_asked.pop(uid, None)
        self._place.memory.known.pop(uid, None)

    async def _pods_of(self, task: Brief, phase: Phase, *, fresh: bool) -> tuple[Pod, ...]:
        if phase is Phase.QUEUED:
            return ()
        if fresh or phase.terminal:
            return await self._place.pods.now(task.uuid)
        seen = await self._place.pods.lately(task.uuid, task.status)
        return () if seen is None else seen.pods

    async def _failure(self, ref: JobRef, task: Brief, mark: Mark, pods: Sequence[Pod]) -> Failure:
        replicas = replicas_of(pods, mark, Phase.FAILED)
        name, veil = failed_first(replicas), read_veil(task)
        if name is None:
            return diagnose(Evidence(reason=task.status_msg, veil=veil))
        replica, pod = replicas[name]
        why = pod.why or task.status_msg
        evidence = Evidence(
            replica=name,
            rank=replica.rank,
            exit_code=pod.exit_code,
            out_of_memory="oomkilled" in why.lower().replace(" ", ""),
            reason=why,
            last_lines=await self._last_lines(ref, name, pod, veil),
            veil=veil,
        )
        return diagnose(evidence)

    async def _last_lines(self, ref: JobRef, replica: str, pod: Pod, veil: Veil) -> tuple[str, ...]:
        """Return the last lines of a replica; () when they can't be read: a failure is told without them as well."""
        try:
            return tuple(await self._logs.last_lines(ref, replica, pod.name, MAX_LAST_LINES, veil))
        except BackendError:
            return ()
