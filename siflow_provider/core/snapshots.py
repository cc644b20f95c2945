"""A stream of snapshots that no passing fault ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siflow_provider.core.patience import pause_seconds
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.core.protocol import Backend

__all__ = ["snapshots"]

_REWATCH_SECONDS = 1.0


async def snapshots(backend: Backend, ref: JobRef) -> AsyncIterator[Status]:
    """Yield the run's snapshots, the terminal one last.

    A watch that ends early is opened again and says nothing about the run; a backend that does not answer, or refuses
    to tell, gives snapshots of phase `unknown` until it does: rights that are missing may be given back, and nothing
    that keeps a run from being seen says anything about the run.
    """
    failures = 0
    while True:
        try:
            async with closing_stream(backend.watch(ref)) as stream:
                async for status in stream:
                    failures = 0
                    yield status
                    if status.phase.terminal:
                        return
        except BackendError as error:
            failures += 1
            yield Status(ref=ref, phase=Phase.UNKNOWN, reason=str(error))
        await asyncio.sleep(pause_seconds(failures) if failures else _REWATCH_SECONDS)
