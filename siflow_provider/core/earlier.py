"""Runs that were there before this task instance: whose they are, and how one that still lives is ended first.

A DAG run that is deleted and made again (or made by a new database) has the ids and the tries of the one before. Only
Airflow's own id of the task instance tells the two apart: it is new for each try and each making, and the same in all
legs of a try (source: Airflow 3.1.0 and 3.3.2 `airflow/models/taskinstance.py`, `prepare_db_for_next_try`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from siflow_provider.core.expiry import finish_run
from siflow_provider.core.origin import STOPPED_BY
from siflow_provider.core.patience import UNTIL_ALLOWED, patiently
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import Backend, RenderContext
    from siflow_provider.core.status import JobRef, Status

__all__ = ["end_older", "find_all", "find_own"]

_GONE_SECONDS = 180.0


async def find_all(backend: Backend, identity: Identity, *, context: str | None = None) -> list[JobRef]:
    """Return the newest attempt of every run with these ids, whichever DAG run made it; the newest run last.

    The first may have been removed while a later one lives: the search goes one further.
    """
    found: list[JobRef] = []
    generation = 0
    while True:
        ref = await backend.find_latest(identity.of_generation(generation), context=context)
        if ref is not None:
            found.append(ref)
        elif generation:
            return found
        generation += 1


async def find_own(
    backend: Backend, context: RenderContext, reporter: Reporter, *, place: str
) -> tuple[RenderContext, Status | None]:
    """Return the context of this task instance's own run, and what its newest attempt does where there is one.

    A run of an earlier DAG run keeps its name, its result and its data, and is stopped where it still lives; the own
    run is then another generation.

    Args:
        backend: opened.
        context: of the first generation.
        reporter: who is told.
        place: as `Backend.find_latest` takes `context`.
    """
    while True:
        identity = context.identity
        ref = await patiently(
            lambda identity=identity: backend.find_latest(identity, context=place),  # type: ignore[misc]
            what="looking for an earlier submission",
            reporter=reporter,
        )
        if ref is None:
            return context, None
        status = await patiently(
            lambda ref=ref: backend.status(ref),  # type: ignore[misc]
            what=f"asking whose {ref.name} is",
            reporter=reporter,
            ride=UNTIL_ALLOWED,
        )
        if _is_own(status, context):
            return context, status
        if status.phase.terminal:
            reporter.note(f"{ref.name} belongs to an earlier DAG run with the same ids: it is left as it ended")
        else:
            await end_older(backend, ref, reporter, whose="DAG run with the same ids", detached=context.detached)
        context = replace(context, identity=identity.of_generation(identity.generation + 1))


async def end_older(backend: Backend, ref: JobRef, reporter: Reporter, *, whose: str, detached: bool) -> None:
    """Stop a live run that is none of this task instance's, and wait until nothing of it runs: one task, one run.

    Args:
        backend: opened.
        ref: the run's newest attempt.
        reporter: who is told.
        whose: `try` or `DAG run with the same ids`: an earlier one.
        detached: its task says that it shall go on (`on_kill_action="detach"`): it is only told of.

    Raises:
        BackendUnavailable: it has not ended minutes after it was stopped.
    """
    if detached:
        reporter.note(f"{ref.name} of an earlier {whose} still runs (on_kill_action='detach')", warning=True)
        return
    reporter.note(f"{ref.name} of an earlier {whose} still runs: stopping it before this one submits", warning=True)
    await patiently(
        lambda: backend.stop(ref, by=f"{STOPPED_BY} a new {whose}"),
        what=f"stopping {ref.name}",
        reporter=reporter,
    )
    await _gone(backend, ref, whose)
    await finish_run(backend, ref, reporter)


async def _gone(backend: Backend, ref: JobRef, whose: str) -> None:
    try:
        async with asyncio.timeout(_GONE_SECONDS):
            async for status in backend.watch(ref):
                if status.phase.terminal:
                    return
    except TimeoutError:
        raise BackendUnavailable(
            f"{ref.name} of an earlier {whose} has not ended {_GONE_SECONDS:g} s after it was stopped.",
            hint="Stop it by hand, then clear the task.",
        ) from None


def _is_own(status: Status, context: RenderContext) -> bool:
    """Say whether this instance submitted the run; where either does not say who it is, the ids decide alone."""
    instance = "" if status.origin is None else status.origin.instance
    return not instance or not context.instance or instance == context.instance
