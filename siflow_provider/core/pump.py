"""Carries log lines from the replicas to the reporter: each once, in order, and none left behind at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from siflow_provider.core.diagnosis import MAX_LAST_LINES
from siflow_provider.core.patience import pause_seconds
from siflow_provider.core.results import ResultReader
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, is_selected, main_replica
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from siflow_provider.core.outcome import FollowPolicy, Reporter
    from siflow_provider.core.protocol import Backend

__all__ = ["LogPump", "closing_stream"]

_T = TypeVar("_T")
_BREATHE_EVERY = 100  # lines after which the event loop gets its turn in a backlog
_REOPEN_SECONDS = 1.0
_LAST_SECONDS = 300.0  # an outage of minutes after the run's end costs no line
_REFUSED_SECONDS = 20.0  # rights that are given anew are there soon; others never were


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[_T]) -> AsyncIterator[AsyncIterator[_T]]:
    """Close an async generator when the block is left; other iterators have nothing to close."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


class LogPump:
    """Reads the logs of one attempt.

    It reads what the policy shows, and beyond that the main replica for results and every replica for signs of work
    when a hang is to be noticed; what was not asked for is read but not shown.

    Attributes:
        active_at: when the last line came, or reading (re)started; None while the logs can't be read.
        results: what the main replica reported.
    """

    def __init__(
        self,
        backend: Backend,
        ref: JobRef,
        policy: FollowPolicy,
        reporter: Reporter,
        *,
        cursor: LogCursor,
        clock: Callable[[], datetime],
        on_line: Callable[[], None],
        over: Callable[[str], str] = str,
    ) -> None:
        self._positions = dict(cursor.positions)
        self.results = ResultReader(over)
        self.active_at: datetime | None = clock()
        self._backend, self._ref, self._reporter, self._clock = backend, ref, reporter, clock
        self._on_line = on_line
        self._shown = policy.logs
        self._read = _selection(policy, ref)
        self._main = main_replica(ref.kind)
        self._resumed = bool(cursor.positions)
        self._ending = asyncio.Event()
        self._warned = False
        self._lines: dict[str, deque[str]] = {}
        self.lines_read = 0

    @property
    def cursor(self) -> LogCursor:
        """How far lines were read and shown. Made when asked for: a copy for each line would cost every replica's."""
        return LogCursor(positions=dict(self._positions))

    def finish(self) -> None:
        """Say that the run ended: read what is left, then return from `run`."""
        self._ending.set()

    def last_lines(self, replica: str | None) -> tuple[str, ...]:
        """Return the last lines read of a replica, or of the main one."""
        return tuple(self._lines.get(replica or self._main, ()))

    async def read_end_of(self, replica: str) -> None:
        """Read the last lines of an ended replica that was not read so far; where they can't be had, say so."""
        if replica in self._lines:
            return
        lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                stream = self._backend.logs(self._ref, (replica,), LogCursor(), follow=False)
                async with closing_stream(stream) as lines_of_it:
                    async for line in lines_of_it:
                        if not line.remark:
                            lines.append(line.text)
        except (BackendError, TimeoutError) as error:
            self._reporter.note(
                f"the last lines of {replica} can't be read: {error or 'it took too long'}", warning=True
            )
        self._lines[replica] = lines

    async def run(self) -> None:
        """Read until `finish` was called and all lines of the ended run were read, or can't be had."""
        failures, ended_at = 0, None
        while True:
            if ended_at is None and self._ending.is_set():
                # asked before reading: only a stream that is opened after the end holds everything
                failures, ended_at = 0, self._clock()
            try:
                await self._read_stream()
            except (BackendUnavailable, AccessDenied) as error:
                failures += 1
                self._go_blind(error)
                if self._gives_up(ended_at, error):
                    return
            except BackendError as error:
                self.active_at = None
                self._reporter.note(f"the logs can't be read: {error}", warning=True)
                return
            else:
                failures = 0
                if ended_at is not None:
                    await self._read_results_again()
                    return
            await self._pause(pause_seconds(failures) if failures else _REOPEN_SECONDS, last=ended_at is not None)

    async def _read_stream(self) -> None:
        try:
            await self._read_selected()
        except UsageError as error:
            if self._read == "master":
                raise
            self._read = "master"  # nobody of that name: results are still read
            self._reporter.note(str(error), warning=True)
            await self._read_selected()

    async def _read_selected(self) -> None:
        async with closing_stream(self._backend.logs(self._ref, self._read, self.cursor)) as stream:
            self.active_at = self.active_at or self._clock()
            async for line in stream:
                self._take(line)
                if self.lines_read % _BREATHE_EVERY == 0:
                    await asyncio.sleep(0)

    def _take(self, line: LogLine) -> None:
        self.lines_read += 1
        if is_selected(line.replica, self._shown, self._ref.kind):
            self._reporter.line(line)
        self._positions[line.replica] = line.position
        if not line.remark:
            self._take_output(line)
        self._on_line()

    def _take_output(self, line: LogLine) -> None:
        if line.replica == self._main:
            self._read_result(line)
        self._lines.setdefault(line.replica, deque(maxlen=MAX_LAST_LINES)).append(line.text)
        self.active_at = self._clock()

    def _read_result(self, line: LogLine) -> None:
        trouble = self.results.feed(line)
        if trouble is not None:
            self._reporter.note(trouble, warning=True)

    def _go_blind(self, error: BackendError) -> None:
        self.active_at = None
        if not self._warned:
            self._warned = True
            self._reporter.note(f"the logs can't be read at the moment: {error}; trying again", warning=True)

    def _gives_up(self, ended_at: datetime | None, error: BackendError) -> bool:
        patience = _REFUSED_SECONDS if isinstance(error, AccessDenied) else _LAST_SECONDS
        if ended_at is None or (self._clock() - ended_at).total_seconds() < patience:
            return False
        self._reporter.note(f"the last log lines could not be read: {error}", warning=True)
        return True

    async def _read_results_again(self) -> None:
        """Look for a result among the lines that an earlier follower had shown: it took its knowledge with it."""
        if self.results.found or not self._resumed:
            return
        again = ResultReader()
        try:
            async with closing_stream(self._backend.logs(self._ref, (self._main,), LogCursor())) as stream:
                async for line in stream:
                    again.feed(line)
        except BackendError as error:
            self._reporter.note(f"results written before this follower started can't be read: {error}", warning=True)
        if again.found:
            self.results = again

    async def _pause(self, seconds: float, *, last: bool) -> None:
        """Wait, but not past the end of the run: then the last stream is opened at once, and waited for if it fails."""
        if last:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return


def _selection(policy: FollowPolicy, ref: JobRef) -> LogSelection:
    if policy.hang_timeout is not None or policy.logs == "all":
        return "all"
    if policy.logs in {"none", "master"}:
        return "master"
    return tuple(dict.fromkeys((*policy.logs, main_replica(ref.kind))))
