"""Notices that a connection was changed while the old one can't see the run: a key that was replaced, a new address.

A backend that is refused for hours says so and goes on asking, for a right may be given back. But a key that was
revoked never is: what mends that is the connection, which is read anew while the run is out of sight.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendError, SiflowError
from siflow_provider.hooks.siflow import SiflowHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import JobRef, Status

__all__ = ["ConnectionChanged", "Sight"]

LOOK_SECONDS = 60.0
"""Each look asks Airflow's database: not more often, by each of thousands of triggers."""
T = TypeVar("T")


class ConnectionChanged(SiflowError):
    """The connection has other content than the one that the run is followed by."""


class Sight:
    """A backend that knows whether it sees the run.

    Args:
        backend: does all else.
        conn_id: where its settings come from.
        settings: what it was opened with.
    """

    def __init__(self, backend: Backend, conn_id: str, settings: Settings) -> None:
        self._backend, self._conn_id, self._settings = backend, conn_id, settings
        self._blind = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        """Yield the backend's snapshots."""
        try:
            async with closing_stream(self._backend.watch(ref)) as stream:
                async for status in stream:
                    self._blind = status.phase is Phase.UNKNOWN
                    yield status
        except BackendError:
            self._blind = True
            raise

    async def keep(self, work: Awaitable[T]) -> T:
        """Await what follows the run through this backend.

        Raises:
            ConnectionChanged: it was, while the run was out of sight; the work is cancelled.
        """
        try:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(self._until_changed())
                result = await work
                looking.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return result

    async def _until_changed(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._blind and await self._is_changed():
                raise ConnectionChanged(
                    f"the connection {self._conn_id!r} was changed, and the old one can't see the run."
                )

    async def _is_changed(self) -> bool:
        try:
            found = await SiflowHook(self._conn_id).asettings(expected=self._settings.backend)
        except SiflowError:  # it is being mended: what is known goes on
            return False
        return found != self._settings
