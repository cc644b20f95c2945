"""One listing for all runs that somebody waits for, instead of one request for each of them.

While anybody watches, the tasks are listed page by page until every watched one was seen, or so few are left that they
cost less asked for one by one than the pages behind (the platform keeps ended tasks). Listings are at least
`Pace.listing` apart, and further the more pages they need and the longer nothing changes, each time with jitter.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.client import PAGE_SIZE
from siflow_provider.backends.platform.errors import NotFound
from siflow_provider.backends.platform.matches import groups
from siflow_provider.backends.platform.state import phase_of
from siflow_provider.backends.platform.wire import Brief, read_row
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.platform.answers import Answer
    from siflow_provider.backends.platform.matches import Twins
    from siflow_provider.backends.platform.pace import Pace
    from siflow_provider.backends.platform.tasks import Tasks
    from siflow_provider.core.status import JobRef

__all__ = ["Feed", "Poller"]

log = logging.getLogger(__name__)

_SECONDS_PER_PAGE = 1.5
"""Bounds the requests per minute, however many tasks there are."""
_SLOWER = 1.5
_LONGEST_OUTAGE_PAUSE = 120.0
_CONFIRMED_AT_ONCE = 20
_LOOKS_BEFORE_LOST = 2
_REFUSALS_RIDDEN_OUT = 6
"""Of whole listings: with the growing pauses between them, about ten minutes."""
_LISTINGS_RIDDEN_OUT = 60
"""Of one task: as long as so many listings at their usual pace, ten minutes too. Who gives up stops the run."""
Look = Brief | BackendError | None
"""A task; an error that keeps it from being seen; None when the platform no longer knows it."""


class Feed:
    """What one watcher gets to see of its run.

    Attributes:
        seen: True once the platform showed the task to this process.
        look: what there was to see last.
        told: False while there was nothing to see yet.
    """

    def __init__(self, ref: JobRef) -> None:
        self.ref = ref
        self.since = time.monotonic()
        self.seen = False
        self.missed = 0
        self.refused_since: float | None = None
        self.look: Look = None
        self.told = False
        self._news = asyncio.Event()

    def tell(self, look: Look) -> None:
        """Give the watcher something new to look at."""
        self.look, self.told = look, True
        self._news.set()

    async def looks(self) -> AsyncIterator[Look]:
        """Yield what there is to see, each time that it may have changed."""
        while True:
            await self._news.wait()
            self._news.clear()
            yield self.look


class Poller:
    """Lists for everybody.

    Args:
        tasks: the task service.
        pace: how often.
        twins: keeps one of two tasks of one run.
        unwatched: called with the uid of a run that nobody watches any more.
    """

    def __init__(self, tasks: Tasks, pace: Pace, twins: Twins, *, unwatched: Callable[[str], None]) -> None:
        self._tasks, self._pace, self._twins, self._unwatched = tasks, pace, twins, unwatched
        self._feeds: dict[str, set[Feed]] = {}
        self._signs: dict[str, Any] = {}
        self._work: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._quiet, self._failures, self._pages = 0, 0, 1
        self._warned: set[str] = set()

    @asynccontextmanager
    async def watching(self, ref: JobRef) -> AsyncIterator[Feed]:
        """Watch one run while the block lasts."""
        feed = Feed(ref)
        self._feeds.setdefault(ref.uid, set()).add(feed)
        self._signs.pop(ref.uid, None)
        self._wanted.set()
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run(), name="siflow-platform-listing")
        try:
            yield feed
        finally:
            left = self._feeds[ref.uid]
            left.discard(feed)
            if not left:
                del self._feeds[ref.uid]
                self._signs.pop(ref.uid, None)
                self._unwatched(ref.uid)

    def show(self, task: Brief) -> None:
        """Tell watchers of a task what somebody has just read of it."""
        self._signs.pop(task.uuid, None)
        self._tell(task.uuid, task)

    async def close(self) -> None:
        """End the listing."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work

    async def _run(self) -> None:
        while True:
            if not self._feeds:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                changed = await self._sweep()
                self._failures, self._quiet = 0, 0 if changed else self._quiet + 1
            except BackendError as error:
                self._failures += 1
                self._tell_all(self._milder(error))
            except Exception as error:  # whatever it is, nobody may be left waiting in the dark
                log.exception("the listing failed")
                self._failures += 1
                self._tell_all(BackendUnavailable(f"the listing failed: {type(error).__name__}: {error}."))
            await self._rest()

    async def _rest(self) -> None:
        """Wait until the next listing is due; for somebody new it is due as soon as listings may follow each other."""
        since = time.monotonic()
        while (left := since + self._pause() - time.monotonic()) > 0:
            self._wanted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wanted.wait()
                    self._quiet = 0

    def _milder(self, error: BackendError) -> BackendError:
        """Take a refusal for a passing fault at first: services of the platform have answered 401 in outages."""
        if isinstance(error, BackendUnavailable) or self._failures > _REFUSALS_RIDDEN_OUT:
            return error
        return BackendUnavailable(str(error))

    def _pause(self) -> float:
        pace = self._pace
        slower = min(pace.listing * _SLOWER**self._quiet, pace.longest_listing)
        bounded = self._pages * _SECONDS_PER_PAGE if self._pages > 1 else 0.0
        outage = min(pace.listing * 2.0**self._failures, _LONGEST_OUTAGE_PAUSE) if self._failures else 0.0
        return max(slower, bounded, outage) * random.uniform(0.9, 1.1)

    async def _sweep(self) -> bool:
        wanted = set(self._feeds)
        names = {feed.ref.name for feeds in self._feeds.values() for feed in feeds}
        rows: dict[str, dict[str, Any]] = {}
        named: dict[str, dict[str, dict[str, Any]]] = {}
        self._pages = 0
        async with aclosing(self._tasks.pages()) as pages:
            async for page in pages:
                self._pages += 1
                for row in page.rows:
                    uid = str(row.get("uuid"))
                    rows[uid] = row
                    if (name := str(row.get("name", "")).rpartition("-")[0]) in names:
                        named.setdefault(name, {})[uid] = row
                if _is_enough(wanted - rows.keys(), page, len(rows)):
                    break
        changed = self._tell_rows(rows, wanted)
        for same in named.values():
            if len(same) > 1:
                await self._keep_one(list(same.values()))
        await self._confirm(wanted - rows.keys())
        return changed

    def _tell_rows(self, rows: dict[str, dict[str, Any]], wanted: Iterable[str]) -> bool:
        changed = False
        for uid in wanted:
            row = rows.get(uid)
            if row is None:
                continue
            sign = (row.get("status"), row.get("statusMsg"), row.get("updateTime"), row.get("queueInfo"))
            moved = self._signs.get(uid) != sign
            self._signs[uid] = sign
            changed = changed or moved
            # of a running task the pods may have changed, which the listing does not show; and who still watches a
            # task that has ended could not read its end yet
            if moved or phase_of(str(row.get("status"))) is not Phase.QUEUED:
                self._tell(uid, _read(row))
        return changed

    async def _keep_one(self, rows: list[dict[str, Any]]) -> None:
        """Of tasks that have one name tell all who watch one of them what the one that counts does."""
        for group in groups(look for look in map(_read, rows) if isinstance(look, Brief)).values():
            if len(group) > 1 and any(task.uuid in self._feeds for _, task in group):
                _, kept = await self._twins.keep_one(group)
                for _, task in group:
                    self._tell(task.uuid, kept)

    async def _confirm(self, missing: set[str]) -> None:
        """Ask for tasks that no page showed, one by one: a listing may lag, or miss a row that moved between pages."""
        longest = sorted(missing & self._feeds.keys(), key=lambda uid: min(feed.since for feed in self._feeds[uid]))
        for uid in longest[:_CONFIRMED_AT_ONCE]:
            try:
                self._tell(uid, await self._tasks.get(uid))
            except NotFound:
                self._tell_missing(uid)
            except BackendUnavailable as error:
                self._tell(uid, error)
            except BackendError as error:  # of this task alone: the others are seen as ever
                self._tell_refused(uid, error)

    def _tell_missing(self, uid: str) -> None:
        for feed in self._feeds.get(uid, ()):
            feed.missed += 1
            waited = time.monotonic() - feed.since
            if feed.missed >= _LOOKS_BEFORE_LOST and (feed.seen or waited > self._pace.visible):
                feed.tell(None)
            elif not feed.seen:
                feed.tell(BackendUnavailable("the platform does not show the task yet."))

    def _tell_refused(self, uid: str, error: BackendError) -> None:
        now = time.monotonic()
        for feed in self._feeds.get(uid, ()):
            feed.refused_since = feed.refused_since or now
            given_up = now - feed.refused_since >= self._pace.listing * _LISTINGS_RIDDEN_OUT
            feed.tell(error if given_up else BackendUnavailable(str(error)))

    def _tell(self, uid: str, look: Look) -> None:
        for feed in self._feeds.get(uid, ()):
            if isinstance(look, Brief):
                feed.seen, feed.missed, feed.refused_since = True, 0, None
                self._warn(look)
            feed.tell(look)

    def _tell_all(self, error: BackendError) -> None:
        self._signs.clear()
        for uid in list(self._feeds):
            self._tell(uid, error)

    def _warn(self, task: Brief) -> None:
        if phase_of(task.status) is Phase.UNKNOWN and task.status not in self._warned:
            self._warned.add(task.status)
            log.warning("the platform says %r of %s, which is not known here: waiting on", task.status, task.name)


def _is_enough(missing: set[str], page: Answer, seen: int) -> bool:
    """Say whether asking for the missing tasks one by one costs less than the pages that are left."""
    if not missing:
        return True
    left = 0 if page.total is None else math.ceil((page.total - seen) / PAGE_SIZE)
    return len(missing) <= min(left, _CONFIRMED_AT_ONCE)


def _read(row: dict[str, Any]) -> Look:
    """Return the task, or why it can't be read: one odd row must not keep the others from being seen."""
    try:
        return read_row(Brief, row)
    except BackendUnavailable as error:
        return error
