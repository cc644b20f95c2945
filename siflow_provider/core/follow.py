"""The only loop that waits for a run: it serves worker, triggerer and terminal alike.

It watches the run and reads its logs at the same time, tells the reporter, minds the clocks and returns one outcome.
It never resubmits: who holds the task does (`siflow_provider.core.attempts`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from siflow_provider.core.alarms import LONG_QUEUE, Alarms
from siflow_provider.core.checkpoints import Checkpoints
from siflow_provider.core.clocks import Clock, Sight, due_clock, next_moment, stopper
from siflow_provider.core.endings import Ending, judge
from siflow_provider.core.expiry import delete_run, note_stacks, stop_run
from siflow_provider.core.meter import Meter, Sizes
from siflow_provider.core.narration import Narrator
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind, Reporter, Totals
from siflow_provider.core.pump import LogPump
from siflow_provider.core.snapshots import snapshots
from siflow_provider.core.status import JobRef, LogCursor, Phase, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from siflow_provider.core.protocol import Backend

__all__ = ["follow", "utc_now"]

_DRAIN_SILENCE_SECONDS = 30.0
_STOP_SECONDS = 60.0
_LONGEST_SLEEP_SECONDS = 3600.0  # a machine's clock may be set while we sleep
_LINKS_SECONDS = 1.0


def utc_now() -> datetime:
    """Return the moment now, aware, in UTC."""
    return datetime.now(UTC)


async def follow(
    backend: Backend,
    ref: JobRef,
    policy: FollowPolicy,
    reporter: Reporter,
    *,
    cursor: LogCursor = LogCursor(),  # noqa: B008 - frozen
    sizes: Sizes = Sizes(),  # noqa: B008 - frozen
    clock: Callable[[], datetime] = utc_now,
) -> Outcome:
    """Follow one attempt to its end, and return it once all its logs were shown.

    A run that ends by a clock is stopped first. A backend without an answer, or one that refuses to tell (rights that
    are missing), is waited for as long as it takes; only a clock ends that. Cancelling leaves the run as it is: whoever
    cancels decides whether it is stopped.

    Args:
        backend: opened by the caller.
        ref: the attempt.
        policy: clocks, logs, retries, alerts.
        reporter: who is told.
        cursor: how far an earlier follower had shown the logs.
        sizes: what an earlier follower had kept by `Reporter.sizes`.
        clock: gives the moment now; sleeping goes by the event loop's own time.
    """
    return await _Follower(backend, ref, policy, reporter, cursor=cursor, sizes=sizes, clock=clock).run()


class _Follower:
    def __init__(
        self,
        backend: Backend,
        ref: JobRef,
        policy: FollowPolicy,
        reporter: Reporter,
        *,
        cursor: LogCursor,
        sizes: Sizes,
        clock: Callable[[], datetime],
    ) -> None:
        self._backend, self._ref, self._policy, self._reporter = backend, ref, policy, reporter
        self._now = clock
        self._checkpoints = Checkpoints(
            "the place in the logs", cursor, lambda: self._pump.cursor, reporter.checkpoint, reporter,
            pause=reporter.checkpoint_seconds,
        )  # fmt: skip
        no_links: dict[str, str] = {}
        self._links = Checkpoints(
            "where the run can be looked at", no_links, self._links_now, reporter.links, reporter, pause=_LINKS_SECONDS
        )
        self._pump = LogPump(
            backend, ref, policy, reporter, cursor=cursor, clock=clock, on_line=self._checkpoints.move, over=self._over
        )
        self._meter = Meter(ref, reporter, sizes)
        self._alarms = Alarms(policy.alerts, reporter)
        self._narrator = Narrator(reporter, told_until=policy.told_until)
        self._changed = asyncio.Event()
        self._sight: Sight | None = None
        self._counted: Sight | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> Outcome:
        pumping = self._spawn(self._pump.run(), "logs")
        self._spawn(self._watch(), "watch")
        self._spawn(self._checkpoints.run(), "cursor")
        self._spawn(self._links.run(), "links")
        self._spawn(self._meter.run(), "meter")
        try:
            clock = await self._until_end()
            if clock is Clock.FALLBACK:
                await self._alarms.close()
                return self._outcome(Ending(OutcomeKind.MOVE, Phase.QUEUED))
            ending = await self._end_by(clock, pumping)
            self._tell_end(ending)
            await self._alarms.close()
            return self._outcome(ending)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.gather(self._checkpoints.close(), self._links.close(), self._meter.close())

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"siflow-{what}-{self._ref.name}")
        task.add_done_callback(lambda _: self._changed.set())
        self._tasks.append(task)
        return task

    async def _watch(self) -> None:
        async for status in snapshots(self._backend, self._ref):
            self._see(status)
            self._changed.set()

    def _see(self, status: Status) -> None:
        self._narrator.tell(status)
        old = self._sight
        if status.phase is Phase.UNKNOWN:
            self._sight = None if old is None else replace(old, known=False)
            return
        now = self._now()
        since = old.phase_since if old is not None and old.status.phase is status.phase else now
        self._sight = Sight(status, seen_at=now, phase_since=since, active_at=None)
        self._links.move()
        if status.submitted_at is not None:  # of a lost run nothing may be left to count
            self._counted = self._sight
            self._meter.see(status, now)
        if status.phase is not Phase.LOST:
            self._alarms.fire("submitted", status, f"{self._ref.name} was submitted to {self._backend.name}")
        if status.phase is Phase.RUNNING or status.running_at is not None:
            self._alarms.fire("started", status, f"{self._ref.name} runs")

    def _over(self, text: str) -> str:
        return text if self._sight is None else self._sight.status.veil.over(text)

    def _links_now(self) -> dict[str, str]:
        return {} if self._sight is None else dict(self._sight.status.links)

    def _look(self) -> Sight | None:
        return None if self._sight is None else replace(self._sight, active_at=self._pump.active_at)

    async def _until_end(self) -> Clock | None:
        """Wait until the run ended (None) or a clock ran out."""
        while True:
            self._changed.clear()
            for task in self._tasks:
                if task.done() and task.exception() is not None:
                    task.result()
            if self._ended() is not None:
                return None
            now = self._now()
            clock = due_clock(self._policy, self._look(), now)
            if clock is Clock.HANG and not await self._is_hang():
                continue
            if clock is not None:
                return clock
            self._tell_long_queue(now)
            await self._sleep(now)

    def _ended(self) -> Status | None:
        return self._sight.status if self._sight is not None and self._sight.status.phase.terminal else None

    async def _is_hang(self) -> bool:
        """Take the stacks; a run that gave a sign of work or ended meanwhile does not hang."""
        limit = stopper(Clock.HANG, self._policy)
        self._reporter.note(f"{limit}: no log line and no progress for that long; taking stack dumps", warning=True)
        before = self._pump.lines_read
        await note_stacks(self._backend, self._ref, self._reporter)
        if self._pump.lines_read != before or self._ended() is not None:
            self._reporter.note("the run goes on after all")
            return False
        self._alarms.fire("hang", self._last_known(), f"{self._ref.name} seems to hang ({limit})")
        return True

    def _tell_long_queue(self, now: datetime) -> None:
        if self._sight is None or self._sight.status.phase is not Phase.QUEUED:
            return
        queued = self._sight.queued_seconds(now)
        self._alarms.fire_long_queue(self._sight.status, queued)

    async def _sleep(self, now: datetime) -> None:
        moments = [next_moment(self._policy, self._look()), self._long_queue_moment()]
        seconds = min(((moment - now).total_seconds() for moment in moments if moment is not None), default=None)
        try:
            async with asyncio.timeout(
                _LONGEST_SLEEP_SECONDS if seconds is None else min(seconds, _LONGEST_SLEEP_SECONDS)
            ):
                await self._changed.wait()
        except TimeoutError:
            return

    def _long_queue_moment(self) -> datetime | None:
        length = self._alarms.next_length(LONG_QUEUE)
        if length is None or self._sight is None or self._sight.status.phase is not Phase.QUEUED:
            return None
        return self._sight.queue_start + timedelta(seconds=length)

    async def _end_by(self, clock: Clock | None, pumping: asyncio.Task[None]) -> Ending:
        """Bring the run to its end where a clock ran out, read all logs, and say what the end means."""
        last = self._last_known()
        if clock is not None and await stop_run(
            self._backend, self._ref, self._reporter, by=stopper(clock, self._policy)
        ):
            await self._await_end()
        ended = self._ended()
        if ended is not None:
            await self._drain(pumping)
            await self._read_evidence(ended)
        if clock is not None and ended is not None and ended.phase is Phase.SUCCEEDED:
            clock = None  # it was quicker than the stop: what is true counts
        leftover = ended is not None and ended.leftover and self._policy.own
        if leftover or clock in {Clock.QUEUE, Clock.START, Clock.IMAGE}:
            await delete_run(self._backend, self._ref, self._reporter)
        status = last if clock is not None or ended is None else ended
        return judge(self._policy, status, clock=clock, now=self._now(), last_lines=self._pump.last_lines)

    def _last_known(self) -> Status:
        return Status(ref=self._ref, phase=Phase.UNKNOWN) if self._sight is None else self._sight.status

    async def _await_end(self) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while self._ended() is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._reporter.note(f"{self._ref.name} was told to stop and has not ended yet", warning=True)

    async def _drain(self, pumping: asyncio.Task[None]) -> None:
        """Read all lines of the ended run, for as long as they come; the pump itself gives up on logs it can't read."""
        self._pump.finish()
        while not pumping.done():
            await asyncio.wait({pumping}, timeout=_DRAIN_SILENCE_SECONDS)
            if not pumping.done() and self._is_silent():
                self._reporter.note("the end of the logs does not come; lines may be missing", warning=True)
                return
        pumping.result()

    async def _read_evidence(self, ended: Status) -> None:
        """Read the end of the log of the replica that failed, where neither the backend nor we have it."""
        failure = ended.failure
        if failure is not None and failure.replica is not None and not failure.last_lines:
            await self._pump.read_end_of(failure.replica)

    def _is_silent(self) -> bool:
        active = self._pump.active_at
        return active is not None and (self._now() - active).total_seconds() >= _DRAIN_SILENCE_SECONDS

    def _tell_end(self, ending: Ending) -> None:
        self._alarms.fire_end(ending.kind, replace(self._last_known(), phase=ending.phase, failure=ending.failure))

    def _outcome(self, ending: Ending) -> Outcome:
        now = self._now()
        return Outcome(
            kind=ending.kind,
            ref=self._ref,
            phase=ending.phase,
            failure=ending.failure,
            results=self._pump.results.value,
            totals=self._totals(now),
            cursor=self._pump.cursor,
        )

    def _totals(self, now: datetime) -> Totals:
        if self._counted is None:
            return Totals()
        queued = self._counted.queued_seconds(now)
        return self._meter.totals(self._counted.status, now).model_copy(update={"queued_seconds": queued})
