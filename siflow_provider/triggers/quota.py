"""`QuotaTrigger`: waits in the triggerer until a whole task fits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from siflow_provider.backends import make_backend
from siflow_provider.core.room import REPEAT_SECONDS, Demand, News, Room, look_for_room
from siflow_provider.errors import BackendUnavailable, SiflowError
from siflow_provider.hooks.siflow import DEFAULT_CONN_ID, SiflowHook
from siflow_provider.triggers.settle import until_settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["QuotaTrigger"]

CLASSPATH = "siflow_provider.triggers.quota.QuotaTrigger"
"""Stored with each deferred task: a new place needs an alias here for as long as tasks may be deferred."""


class QuotaTrigger(BaseTrigger):
    """Fires once: when the whole task fits, or when it is proven that it never can.

    Args:
        conn_id: where the backend's settings come from.
        demand: what the task asks for (`Demand` as JSON).
        backend: the backend that the worker asked; "" = whichever the connection names.
        interval: seconds between two looks.
        repeat_seconds: after how long an unchanged reason is said again.
        deferred_at: when the worker deferred, ISO 8601; "" = not known.
        newer: what a worker of a later version adds; left aside.
    """

    def __init__(
        self,
        conn_id: str = DEFAULT_CONN_ID,
        demand: dict[str, Any] | None = None,
        *,
        interval: float = 60.0,
        repeat_seconds: float = REPEAT_SECONDS,
        backend: str = "",
        deferred_at: str = "",
        **newer: object,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.demand = demand or {}
        self.interval = interval
        self.repeat_seconds = repeat_seconds
        self.backend = backend
        self.deferred_at = deferred_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores: class path and arguments, JSON types only."""
        names = ("conn_id", "demand", "interval", "repeat_seconds", "backend", "deferred_at")
        return CLASSPATH, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at once and then every `interval` seconds."""
        started_at = datetime.now(UTC)
        try:
            room = await self._wait()
            event = {"fits": room.fits, "text": room.text, "room": room.summary(), "error": ""}
        except SiflowError as error:
            event = {"fits": False, "text": "", "room": {}, "error": str(error)}
        if self.task_instance is not None:  # else in line (`airflow dags test`)
            await until_settled(self.deferred_at, started_at)
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _wait(self) -> Room:
        news = News(self.repeat_seconds)
        while True:
            try:
                # read anew where there was no answer: the connection may have been mended meanwhile
                settings = await SiflowHook(self.conn_id).asettings(expected=self.backend)
                task = Demand.model_validate(self.demand).resolved()
                # one backend for the whole wait: a new login for each look would cost more than the look
                async with make_backend(settings) as backend:
                    return await self._until_known(backend, task, news)
            except BackendUnavailable as error:
                self._say(Room.unknown(error), news)
                await asyncio.sleep(self.interval)

    async def _until_known(self, backend: TrainingBackend, task: ResolvedTask, news: News) -> Room:
        while True:
            room = await look_for_room(backend, task)
            if room.fits or room.never:
                return room
            self._say(room, news)
            await asyncio.sleep(self.interval)

    def _say(self, room: Room, news: News) -> None:
        if news.is_new(room.text):
            self.log.info("no room yet: %s", room.text)
