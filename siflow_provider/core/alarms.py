"""Sends the form's alerts beside the work, so that a slow or dead channel never changes or delays a task's state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siflow_provider.core.clocks import duration_text
from siflow_provider.core.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siflow_provider.core.outcome import AlertRule, Reporter
    from siflow_provider.core.status import Status

__all__ = ["LONG_QUEUE", "Alarms"]

LONG_QUEUE = "queued_too_long"
_EVENTS = {OutcomeKind.RETRY: "retrying", OutcomeKind.LOST: "failed"}
_WORDS = {"retrying": "failed and is tried again", "stopped": "was stopped"}


class Alarms:
    """The alerts of one attempt: each rule hears of each event once.

    Args:
        rules: who is told about what.
        reporter: who does the telling; it also remembers across restarts what was told.
        grace_seconds: how long `close` waits for messages that are still on their way.
    """

    def __init__(self, rules: Sequence[AlertRule], reporter: Reporter, *, grace_seconds: float = 5.0) -> None:
        self._rules = tuple(rules)
        self._reporter = reporter
        self._grace = grace_seconds
        self._told: set[tuple[int, str]] = set()
        self._sending: set[asyncio.Task[None]] = set()

    def fire(self, event: str, status: Status, text: str, *, after: float = 0.0) -> None:
        """Tell every rule that lists `event`; `after` is the length reached, for events that have one."""
        for index, rule in enumerate(self._rules):
            limit = rule.events.get(event)
            if limit is None or after < limit or (index, event) in self._told:
                continue
            self._told.add((index, event))
            task = asyncio.create_task(self._send(rule, event, status, text), name=f"siflow-alert-{event}")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def fire_end(self, kind: OutcomeKind, status: Status) -> None:
        """Tell of the end of an attempt; `status` holds its failure."""
        event = _EVENTS.get(kind, str(kind))
        why = "" if status.failure is None else f": {status.failure.category}: {status.failure.summary}"
        self.fire(event, status, f"{status.ref.name} {_WORDS.get(event, event)}{why}")

    def fire_long_queue(self, status: Status, seconds: float) -> None:
        """Tell those who want to know after so many seconds in the queue."""
        text = f"{status.ref.name} has been in the queue for {duration_text(round(seconds))}"
        self.fire(LONG_QUEUE, status, text, after=seconds)

    def next_length(self, event: str) -> float | None:
        """Return the shortest length at which a rule that was not told yet wants to hear of `event`."""
        limits = [
            rule.events[event]
            for index, rule in enumerate(self._rules)
            if event in rule.events and (index, event) not in self._told
        ]
        return min(limits, default=None)

    async def close(self) -> None:
        """Give messages on their way a short time, then leave the slow ones behind."""
        if not self._sending:
            return
        _, late = await asyncio.wait(self._sending, timeout=self._grace)
        for task in late:
            task.cancel()
        if late:
            self._reporter.note(f"{len(late)} alert(s) were not delivered in time and are left behind", warning=True)
            await asyncio.wait(late, timeout=1.0)

    async def _send(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        try:
            await self._reporter.alert(rule, event, status, text)
        except Exception as error:  # whatever a channel's plugin raises must not reach the run
            self._reporter.note(f"the alert {event!r} could not be sent: {error}", warning=True)
