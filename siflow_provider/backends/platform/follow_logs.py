"""Following the logs of a run from any position to its last line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.backends.platform.logs import LogReader, Reading
from siflow_provider.backends.platform.mark import Mark
from siflow_provider.backends.platform.state import replicas_of
from siflow_provider.core.status import Phase, is_selected, main_replica
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.platform.observe import Observer
    from siflow_provider.backends.platform.place import Place
    from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection

__all__ = ["LogFollower"]


@dataclass
class LogFollower:
    """Reads the selected replicas of one run.

    Attributes:
        place: the connection, opened.
        reader: asks for entries.
        observer: tells the run's phase where nobody watches it.
        ref: the run.
        selection: whose lines.
        cursor: how far they were read before.
    """

    place: Place
    reader: LogReader
    observer: Observer
    ref: JobRef
    selection: LogSelection
    cursor: LogCursor
    _readings: dict[str, Reading] = field(default_factory=dict)

    async def lines(self, *, follow: bool) -> AsyncIterator[LogLine]:
        """Yield the lines behind the cursor; nothing is asked for while the run is in the queue.

        Raises:
            UsageError: a replica is named that the run does not have.
            BackendUnavailable: the logs can't be read now.
        """
        settled = complete = False
        while self.reader.readable and self.selection != "none":
            phase = await self._phase(follow=follow)
            if phase is not Phase.QUEUED and not complete:
                await self._find_replicas()
                complete = phase is Phase.RUNNING or phase.terminal
                self._refuse_unknown(complete=complete)
            found = False
            for reading in list(self._readings.values()):
                while lines := await reading.more(self.reader, self.ref.uid):
                    found = True
                    for line in lines:
                        yield line
            if found:
                continue
            if not follow or (phase.terminal and settled):
                return
            settled = phase.terminal
            await asyncio.sleep(self.place.pace.settle if phase.terminal else self.place.pace.logs)

    async def _phase(self, *, follow: bool) -> Phase:
        """Return the run's phase: of one that is watched the listing tells it, without a request for each look."""
        memory, ref = self.place.memory, self.ref
        known = memory.ended.get(ref.uid) or memory.known.get(ref.uid)
        if known is not None and follow and self.place.poller.watches(ref):
            return known.phase
        return (await self.observer.look(ref)).phase

    async def _find_replicas(self) -> None:
        """Add a reading for each selected replica that has none yet."""
        pods = await self._pods() if self.reader.by_pod else {main_replica(self.ref.kind): ""}
        for name, pod in pods.items():
            if is_selected(name, self.selection, self.ref.kind) and name not in self._readings:
                self._readings[name] = Reading.at(name, pod, self.cursor.positions.get(name, ""))

    async def _pods(self) -> dict[str, str]:
        ref = self.ref
        mark = Mark(run=ref.task_uuid, attempt=ref.attempt, name=ref.name, kind=ref.kind)
        try:
            pods = await self.place.tasks.pods(ref.uid)
        except NotFound:
            return {}
        return {name: pod.name for name, (_, pod) in replicas_of(pods, mark, Phase.RUNNING).items()}

    def _refuse_unknown(self, *, complete: bool) -> None:
        if not complete or not self._readings or not isinstance(self.selection, tuple):
            return  # of a run that is gone, or not all there, nothing can be said
        unknown = [name for name in self.selection if name not in self._readings]
        if unknown:
            raise UsageError(f"{self.ref.name} has no replica {unknown[0]!r} whose log can be read.")
