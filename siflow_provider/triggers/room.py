"""`RoomTrigger`: waits in the triggerer until it is worth while to submit again what found no room."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.outcome import Outcome
from siflow_provider.triggers.run import Carried
from siflow_provider.triggers.settle import until_settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["RoomEvent", "RoomTrigger"]

CLASSPATH = "siflow_provider.triggers.room.RoomTrigger"
"""Stored with each deferred task: a new place needs an alias here for as long as tasks may be deferred."""


class RoomEvent(Frozen):
    """What the operator needs to go on; each `RunEvent` is one too.

    Attributes:
        outcome: of the attempt before, which asks for another; None where the first one waits to be submitted.
        carried: what the try remembers.
        blind: as `RunEvent` has it.
    """

    outcome: Outcome | None = None
    carried: Carried
    blind: str = ""


class RoomTrigger(BaseTrigger):
    """Fires once, at its moment. Only a submission can tell whether there is room: nothing is asked meanwhile.

    Args:
        event: what the operator needs to submit again (`RoomEvent` as JSON).
        until: when to fire, ISO 8601; "" = at once.
        deferred_at: when the worker deferred, ISO 8601; "" = not known.
        newer: what a worker of a later version adds; left aside.
    """

    def __init__(
        self, event: dict[str, Any] | None = None, until: str = "", deferred_at: str = "", **newer: object
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.event = event or {}
        self.until = until
        self.deferred_at = deferred_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores: class path and arguments, JSON types only."""
        return CLASSPATH, {"event": self.event, "until": self.until, "deferred_at": self.deferred_at}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait and fire."""
        started_at = datetime.now(UTC)
        until = datetime.fromisoformat(self.until) if self.until else started_at
        await asyncio.sleep(max(0.0, (until - started_at).total_seconds()))
        if self.task_instance is not None:  # else in line (`airflow dags test`)
            await until_settled(self.deferred_at, started_at)
        yield TriggerEvent(self.event)  # type: ignore[no-untyped-call]
