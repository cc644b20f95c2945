"""A backend that plays a script in the event loop's own time, so that a day of a run passes at once.

It keeps the protocol's promises (whole snapshots, terminal last, resumable logs) and shows faults where a script asks
for them; it tests the follower, and no backend.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from siflow_provider.core.identity import Identity, default_prefix
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.protocol import FoundRun, Manifest, RenderContext, TrainingBackend
from siflow_provider.core.quota import QuotaReport
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, Phase, Status, is_selected
from siflow_provider.errors import Reason
from siflow_provider.spec.resolve import ResolvedTask
from tests.unit.core.script import START, Script, moment, room


@dataclass
class _Run:
    ref: JobRef
    script: Script
    born: float
    moves: Moves = Moves()  # noqa: RUF009 - frozen
    origin: Origin | None = None
    stopped: tuple[float, str] | None = None
    gone: bool = False
    leaving: bool = False


class ScriptedBackend:
    """Plays one script a submission, in their order."""

    name = "scripted"

    def __init__(self, *scripts: Script, quotas: Sequence[QuotaReport | Exception] = ()) -> None:
        self.scripts = list(scripts)
        self.runs_by_name: dict[str, _Run] = {}
        self.quotas = list(quotas)
        self.calls: list[str] = []
        self.submitted: list[Manifest] = []
        self.reasons: list[Reason] = []
        self.doubts: list[str] = []
        self.submit_faults: list[Exception] = []
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        return self.reasons

    def warnings(self, task: ResolvedTask) -> list[str]:
        return self.doubts

    def render(self, task: ResolvedTask, context: RenderContext) -> Manifest:
        identity = context.identity
        prefix = task.task.name_prefix or default_prefix(identity.dag_id, identity.task_id)
        return Manifest(task=task, context=context, name=identity.name(prefix), documents=())

    async def submit(self, manifest: Manifest) -> JobRef:
        self.calls.append(f"submit {manifest.context.identity.attempt}")
        if self.submit_faults:
            raise self.submit_faults.pop(0)
        if manifest.name in self.runs_by_name and not self.runs_by_name[manifest.name].gone:
            return self.runs_by_name[manifest.name].ref
        identity = manifest.context.identity
        ref = JobRef(
            backend=self.name,
            kind=manifest.task.task.kind,
            name=manifest.name,
            uid=f"uid-{len(self.submitted)}",
            task_uuid=identity.task_uuid,
            attempt=identity.attempt,
        )
        self.submitted.append(manifest)
        self.runs_by_name[manifest.name] = _Run(
            ref, self.scripts.pop(0), self._time(), manifest.context.moves, manifest.context.origin
        )
        return ref

    async def find(self, identity: Identity, *, trail: object = None) -> JobRef | None:
        return next(
            (
                run.ref
                for run in self.runs_by_name.values()
                if not run.gone and run.ref.task_uuid == identity.task_uuid and run.ref.attempt == identity.attempt
            ),
            None,
        )

    async def find_latest(self, run: Identity | JobRef, *, trail: object = None) -> JobRef | None:
        return self._latest(run.task_uuid)

    def _latest(self, task_uuid: str) -> JobRef | None:
        refs = [each.ref for each in self.runs_by_name.values() if not each.gone and each.ref.task_uuid == task_uuid]
        return max(refs, key=lambda ref: ref.attempt, default=None)

    async def find_each(self, runs: Sequence[Identity], *, trail: object = None) -> list[FoundRun | None]:
        self.calls.append("find_each")
        found = [self._latest(run.task_uuid) for run in runs]
        return [None if ref is None else FoundRun(ref, self.runs_by_name[ref.name].leaving) for ref in found]

    async def status(self, ref: JobRef) -> Status:
        return self._status(self._run(ref))

    async def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        run, last = self._run(ref), None
        closes = None if run.script.watch_ends_every is None else self._time() + run.script.watch_ends_every
        while True:
            self._refuse(run, run.script.outages)
            status = self._status(run)
            if status != last:
                last = status
                yield status
            if status.phase.terminal:
                return
            if closes is not None and self._time() >= closes:
                return
            await self._tick(run, extra=closes)

    async def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        self.calls.append(f"logs {selection}")
        run = self._run(ref)
        counts: dict[str, int] = {}
        for line in sorted(run.script.lines, key=lambda each: each.at):
            counts[line.replica] = counts.get(line.replica, 0) + 1
            position = str(counts[line.replica])
            if not is_selected(line.replica, selection, ref.kind):
                continue
            if int(position) <= int(cursor.positions.get(line.replica, "0")):
                continue
            while self._time() < run.born + line.at:
                if self._ended_before(run, line.at):
                    break
                self._refuse(run, run.script.outages + run.script.log_outages)
                await self._tick(run, extra=run.born + line.at)
            self._refuse(run, run.script.outages + run.script.log_outages)
            if self._ended_before(run, line.at):
                break
            yield LogLine(line.replica, line.text, position, partial=line.partial, remark=line.remark)
        while run.script.endless_logs or not self._status(run).phase.terminal:
            self._refuse(run, run.script.outages + run.script.log_outages)
            await self._tick(run, extra=self._time() + 3600)

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        self.calls.append(f"stop by {by}")
        run = self._run(ref)
        self._refuse(run, run.script.outages)
        if run.script.ignores_stop or self._status(run).phase.terminal:
            return
        run.stopped = run.stopped or (self._time(), by)
        await self._wake()

    async def delete(self, ref: JobRef) -> None:
        self.calls.append("delete")
        self._run(ref).gone = True
        await self._wake()

    async def finish(self, ref: JobRef) -> None:
        self.calls.append(f"finish attempt {ref.attempt}")

    async def find_named(self, name: str) -> list[Status]:
        return [status for status in await self.runs() if status.ref.name == name]

    async def runs(self) -> list[Status]:
        return [self._status(run) for run in reversed(self.runs_by_name.values()) if not run.gone]

    async def dump_stacks(self, ref: JobRef) -> dict[str, str]:
        self.calls.append("dump_stacks")
        return self._run(ref).script.stacks

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        self.calls.append(f"quota {task.flavors[0].instance}")
        answer = self.quotas.pop(0) if self.quotas else room()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()

    def _run(self, ref: JobRef) -> _Run:
        return self.runs_by_name[ref.name]

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _tick(self, run: _Run, *, extra: float | None) -> None:
        """Sleep to the next moment at which anything of the script changes, or until somebody stops the run."""
        script, time = run.script, self._time()
        moments = [run.born + at for at, _ in script.phases]
        moments += [run.born + edge for outage in script.outages + script.log_outages for edge in outage]
        moments += [] if extra is None else [extra]
        later = min((each for each in moments if each > time), default=time + 3600)
        try:
            async with asyncio.timeout(max(later - time, 0.001)), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    def _refuse(self, run: _Run, outages: list[tuple[float, float]]) -> None:
        age = self._time() - run.born
        if any(start <= age < end for start, end in outages):
            raise copy.copy(run.script.fault)

    def _ended_before(self, run: _Run, at: float) -> bool:
        return run.stopped is not None and run.stopped[0] - run.born < at

    def _status(self, run: _Run) -> Status:
        age = self._time() - run.born
        fields: dict[str, Any] = {"phase": Phase.UNKNOWN}
        for at, change in run.script.phases:
            if at <= age and not (run.stopped is not None and at > run.stopped[0] - run.born):
                fields = change
        born = START + timedelta(seconds=run.born)
        known = Status(ref=run.ref, phase=Phase.UNKNOWN, submitted_at=born, moves=run.moves, origin=run.origin)
        status = replace(known, **fields)
        if run.gone:
            return replace(status, phase=Phase.LOST)
        if status.phase is Phase.QUEUED and "queued_seconds" not in fields:
            until = age if run.stopped is None else run.stopped[0] - run.born
            status = replace(status, queued_seconds=until)
        if run.stopped is not None and not status.phase.terminal:
            return replace(status, phase=Phase.STOPPED, stopped_by=run.stopped[1], ended_at=moment(run.stopped[0]))
        return status


_: type[TrainingBackend] = ScriptedBackend
