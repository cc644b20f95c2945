"""`FindRunTrigger`: waits in the triggerer until a run of a given name exists."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from siflow_provider.backends import make_backend
from siflow_provider.errors import BackendUnavailable, SiflowError
from siflow_provider.hooks.siflow import DEFAULT_CONN_ID, SiflowHook
from siflow_provider.triggers.settle import until_settled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import Status

__all__ = ["FindRunTrigger", "find_run"]

CLASSPATH = "siflow_provider.triggers.find.FindRunTrigger"
"""Stored with each deferred task: a new place needs an alias here for as long as tasks may be deferred."""


async def find_run(backend: Backend, name: str, uid: str = "") -> Status | None:
    """Return the newest attempt of the run that `name` is an attempt of; None when there is none.

    Args:
        backend: opened.
        name: the full name of any of its attempts.
        uid: the backend's id of that very attempt; "" takes the newest run of the name.
    """
    for status in await backend.find_named(name):
        if uid in ("", status.ref.uid):
            newest = await backend.find_latest(status.ref)
            return status if newest in (None, status.ref) else await backend.status(newest)
    return None


class FindRunTrigger(BaseTrigger):
    """Fires once, with the ref of the run and the veil over its hidden values.

    Args:
        conn_id: where the backend's settings come from.
        name: the run's full name.
        uid: the backend's id of it; "" = any.
        interval: seconds between two looks.
        backend: the backend that the worker asked; "" = whichever the connection names.
        deadline: when the sensor's patience ends, ISO 8601; handed back with the event.
        deferred_at: when the worker deferred, ISO 8601; "" = not known.
        newer: what a worker of a later version adds; left aside.
    """

    def __init__(
        self,
        conn_id: str = DEFAULT_CONN_ID,
        name: str = "",
        uid: str = "",
        *,
        interval: float = 60.0,
        deadline: str = "",
        backend: str = "",
        deferred_at: str = "",
        **newer: object,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.name = name
        self.uid = uid
        self.interval = interval
        self.deadline = deadline
        self.backend = backend
        self.deferred_at = deferred_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores: class path and arguments, JSON types only."""
        names = ("conn_id", "name", "uid", "interval", "deadline", "backend", "deferred_at")
        return CLASSPATH, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at once and then every `interval` seconds."""
        started_at = datetime.now(UTC)
        try:
            found = await self._wait()
            run = {"ref": found.ref.model_dump(mode="json"), "veil": found.veil.model_dump(mode="json")}
            event: dict[str, Any] = {**run, "error": "", "deadline": self.deadline}
        except SiflowError as error:
            event = {"ref": None, "veil": {}, "error": str(error), "deadline": self.deadline}
        if self.task_instance is not None:  # else in line (`airflow dags test`)
            await until_settled(self.deferred_at, started_at)
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _wait(self) -> Status:
        answered = True
        while True:
            try:
                # read anew where there was no answer: the connection may have been mended meanwhile
                settings = await SiflowHook(self.conn_id).asettings(expected=self.backend)
                async with make_backend(settings) as backend:
                    while (found := await find_run(backend, self.name, self.uid)) is None:
                        answered = True
                        await asyncio.sleep(self.interval)
                    return found
            except BackendUnavailable as error:
                if answered:
                    self.log.warning("no answer from the backend, trying again: %s", error)
                answered = False
                await asyncio.sleep(self.interval)
