"""Following the logs of a run from any position to its last line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.logs import LogReader, Reading
from siflow_provider.backends.platform.mark import Mark, read_veil
from siflow_provider.backends.platform.state import phase_of, replicas_of
from siflow_provider.backends.platform.wire import Brief
from siflow_provider.core.status import Phase, is_selected, main_replica
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendError, UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.platform.observe import Observer
    from siflow_provider.backends.platform.place import Place
    from siflow_provider.backends.platform.poller import Feed
    from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection

__all__ = ["LogFollower"]


@dataclass
class LogFollower:
    """Reads the selected replicas of one run.

    Attributes:
        place: the connection, opened.
        reader: asks for entries.
        observer: tells the run's phase when nobody follows.
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
    _veil: Veil = field(default_factory=Veil)

    async def lines(self, *, follow: bool) -> AsyncIterator[LogLine]:
        """Yield the lines behind the cursor; nothing is asked for while the run is in the queue.

        Raises:
            UsageError: a replica is named that the run does not have.
            BackendUnavailable: the logs can't be read now.
        """
        if not self.reader.readable or self.selection == "none":
            return
        if not follow:
            async for line in self._lines(None):
                yield line
            return
        # the listing that everybody shares tells the phase: a run in the queue costs no request of its own
        async with self.place.poller.watching(self.ref) as feed:
            async for line in self._lines(feed):
                yield line

    async def _lines(self, feed: Feed | None) -> AsyncIterator[LogLine]:
        settled = complete = False
        quiet = 0
        while True:
            phase = await self._phase(feed)
            if phase is not Phase.QUEUED and not complete:
                complete = await self._find_replicas(feed, phase) and (phase is Phase.RUNNING or phase.terminal)
                self._refuse_unknown(complete=complete)
            found = False
            for reading in list(self._readings.values()):
                while lines := await reading.more(self.reader, self.ref.uid, self._veil):
                    found = True
                    for line in lines:
                        yield line
            quiet = 0 if found else quiet + 1
            if found:
                continue
            if feed is None or (phase.terminal and settled):
                return
            settled = phase.terminal
            await asyncio.sleep(self._pause(phase, quiet))

    def _pause(self, phase: Phase, quiet: int) -> float:
        """Return how long to wait: longer for a log that says little, but not while nothing is asked for anyway."""
        pace = self.place.pace
        if phase.terminal:
            return pace.settle
        return pace.logs if phase is Phase.QUEUED else min(pace.logs * 1.5 ** (quiet - 1), pace.longest_logs)

    async def _phase(self, feed: Feed | None) -> Phase:
        ended = self.place.memory.ended.get(self.ref.uid)
        if ended is not None or feed is None:
            status = ended or await self.observer.look(self.ref)
            self._veil = self._veil if self._veil.marks else status.veil
            return status.phase
        if not feed.told:
            return Phase.QUEUED
        look = feed.look
        if isinstance(look, BackendError):
            raise look
        if look is None:
            return Phase.LOST
        self._veil = self._veil if self._veil.marks else read_veil(look)
        return phase_of(look.status)

    async def _find_replicas(self, feed: Feed | None, phase: Phase) -> bool:
        """Add a reading for each selected replica that has none yet; False when the pods can't be had now."""
        pods = await self._pods(feed, phase) if self.reader.by_pod else {main_replica(self.ref.kind): ""}
        for name, pod in (pods or {}).items():
            if is_selected(name, self.selection, self.ref.kind) and name not in self._readings:
                self._readings[name] = Reading.at(name, pod, self.cursor.positions.get(name, ""))
        return pods is not None

    async def _pods(self, feed: Feed | None, phase: Phase) -> dict[str, str] | None:
        """Return the pod of each replica; of a run that is watched and lives what everybody shares, None without."""
        ref, look = self.ref, feed.look if feed is not None else None
        mark = Mark(run=ref.task_uuid, attempt=ref.attempt, name=ref.name, kind=ref.kind)
        if isinstance(look, Brief) and not phase.terminal:
            seen = await self.place.pods.lately(ref.uid, look.status)
            if seen is None or seen.status != look.status:
                return None
            pods = seen.pods
        else:
            pods = await self.place.pods.now(ref.uid)
        return {name: pod.name for name, (_, pod) in replicas_of(pods, mark, Phase.RUNNING).items()}

    def _refuse_unknown(self, *, complete: bool) -> None:
        if not complete or not self._readings or not isinstance(self.selection, tuple):
            return  # of a run that is gone, or not all there, nothing can be said
        unknown = [name for name in self.selection if name not in self._readings]
        if unknown:
            raise UsageError(
                f"{self.ref.name} has no replica {unknown[0]!r} whose log can be read.",
                hint=f"There are: {', '.join(self._readings)}.",
            )
