"""What following a run tells the user: lines in the Airflow task log, checkpoints, alerts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.hooks.alerts import send_alert
from siflow_provider.links import LINKS_KEY, link_xcoms
from siflow_provider.triggers.shown import SHOWN_KEY, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.core.meter import Sizes
    from siflow_provider.core.outcome import AlertRule
    from siflow_provider.core.status import LogCursor, LogLine, Status
    from siflow_provider.core.veil import Veil
    from siflow_provider.triggers.store import Store

__all__ = ["SIZES_KEY", "TaskReporter"]

SIZES_KEY = "siflow_sizes"


class TaskReporter:
    """Writes to the Airflow task log; the same in a worker and in a trigger.

    Args:
        log: the task's or the trigger's own logger.
        store: where checkpoints and what was alerted are kept.
        veil: hides hidden values that a training prints.
        shown: lines that the log holds already; as many are left out, per replica.
    """

    def __init__(
        self,
        log: Any,
        store: Store,
        *,
        veil: Veil,
        shown: Shown | None = None,
    ) -> None:
        self._log = log
        self._store = store
        self._veil = veil
        self._run = shown.run if shown is not None else ""
        self._skip = dict(shown.lines) if shown is not None else {}
        self._count = dict(self._skip)
        self._written = 0
        self._saved = dict(self._skip)

    def behind(self, veil: Veil) -> TaskReporter:
        """Return a reporter to the same log that hides what `veil` knows."""
        return TaskReporter(self._log, self._store, veil=veil)

    def leave_out(self, shown: Shown) -> None:
        """Show no line of a stretch that the log holds already."""
        self._skip = dict(shown.lines)

    @property
    def checkpoint_seconds(self) -> float:
        """An XCom goes through Airflow's API and database: not every second, of each of thousands of triggers."""
        return 30.0

    @property
    def written(self) -> int:
        """How many lines this reporter has written to the log."""
        return self._written

    def line(self, line: LogLine) -> None:
        """Show one line behind its replica's name, unless an earlier follower of the same stretch showed it."""
        if self._skip.get(line.replica, 0) > 0:
            self._skip[line.replica] -= 1
            return
        self._written += 1
        self._log.info("[%s] %s", line.replica, self._veil.over(line.text))
        self._count[line.replica] = self._count.get(line.replica, 0) + 1

    def note(self, text: str, *, warning: bool = False) -> None:
        """Show something about the run itself."""
        self._written += 1
        write = self._log.warning if warning else self._log.info
        write("%s", self._veil.over(text))

    async def checkpoint(self, cursor: LogCursor) -> None:
        """Keep how many lines were shown: for a triggerer that can't see this one's log files."""
        if not self._run or self._count == self._saved:
            return
        counts = dict(self._count)
        await self._store.put(SHOWN_KEY, Shown(run=self._run, lines=counts).model_dump(mode="json"))
        self._saved = counts  # not before: a save that was cut off is made again

    async def sizes(self, sizes: Sizes) -> None:
        """Keep them for another triggerer."""
        await self._store.put(SIZES_KEY, sizes.model_dump(mode="json"))

    async def links(self, links: Mapping[str, str]) -> None:
        """Keep them where Airflow's UI looks for them, unless they are there.

        Also that there are none: Airflow asks for each at the end of each leg and logs an error where nothing is kept.
        """
        before = await self._store.get(LINKS_KEY)
        if links != before:
            await self._store.put_all(link_xcoms(links, before=before or {}))

    async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        """Tell the rule's connections once per event and attempt, whatever restarts."""
        if await self._store.claim_alert(rule, event, status.ref):
            failure = None if status.failure is None else self._veil.over_failure(status.failure)
            veiled = replace(status, failure=failure)
            await send_alert(rule, event, veiled, self._veil.over(text))
