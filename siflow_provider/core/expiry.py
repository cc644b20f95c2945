"""What is done to a run when a clock ran out or it is over: stacks for the log, the stop, the removal, the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siflow_provider.core.patience import patiently
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import JobRef

__all__ = ["delete_run", "finish_run", "note_stacks", "stop_run"]

_DUMP_SECONDS = 60.0
_STOP_TRIES = 8  # over a minute of pauses, and a backend may itself take a minute to give up


async def note_stacks(backend: Backend, ref: JobRef, reporter: Reporter) -> None:
    """Write a stack dump of each rank into the log, where dumps can be had at all. Never raises for a failed dump."""
    try:
        async with asyncio.timeout(_DUMP_SECONDS):
            stacks = await backend.dump_stacks(ref)
    except (BackendError, TimeoutError) as error:
        reporter.note(f"no stack dump could be taken: {error or 'it took too long'}", warning=True)
        return
    if not stacks:
        reporter.note("no stack dump can be taken on this backend")
    for replica in sorted(stacks):
        reporter.note(f"stack of {replica}:\n{stacks[replica].rstrip()}", warning=True)


async def stop_run(backend: Backend, ref: JobRef, reporter: Reporter, *, by: str, wait: bool = True) -> bool:
    """Stop the run; False (and a warning that says how to do it by hand) when the backend could not be brought to.

    Whatever it answers, it is asked again for minutes: a run that is left holds its machines.

    Args:
        backend: opened.
        ref: the attempt.
        reporter: who is told.
        by: who asked, in plain words.
        wait: as `Backend.stop` takes it.
    """
    try:
        await patiently(
            lambda: backend.stop(ref, by=by, wait=wait),
            what=f"stopping {ref.name}",
            reporter=reporter,
            tries=_STOP_TRIES,
            ride=BackendError,
        )
    except BackendError as error:
        by_hand = f"`siflow-provider stop {ref.name}` ends it"
        reporter.note(f"{ref.name} could not be stopped and may still run: {error} {by_hand}.", warning=True)
        return False
    return True


async def delete_run(backend: Backend, ref: JobRef, reporter: Reporter) -> None:
    """Remove the run; a warning that names it when that fails."""
    try:
        await patiently(lambda: backend.delete(ref), what=f"deleting {ref.name}", reporter=reporter)
    except BackendError as error:
        reporter.note(f"{ref.name} could not be deleted: {error}", warning=True)


async def finish_run(backend: Backend, ref: JobRef, reporter: Reporter) -> None:
    """Do what is left after the last attempt; a warning that names the run when that fails."""
    try:
        await patiently(lambda: backend.finish(ref), what=f"tidying up after {ref.name}", reporter=reporter)
    except BackendError as error:
        reporter.note(f"what {ref.name} leaves behind could not be removed: {error}", warning=True)
