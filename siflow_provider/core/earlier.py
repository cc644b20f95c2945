"""Runs that were there before this task instance: whose they are, and how one that still lives is ended first.

A DAG run that is deleted and made again (or made by a new database) has the ids and the tries of the one before. Only
Airflow's own id of the task instance tells the two apart: it is new for each try and each making, and the same in all
legs of a try (source: Airflow 3.1.0 and 3.3.2 `airflow/models/taskinstance.py`, `prepare_db_for_next_try`).

Another Airflow with the same DAGs has the same ids as well. Where both say which one they are their runs never meet;
where neither does, a run that lives is left alone: it may be somebody's who waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from siflow_provider.core.expiry import finish_run
from siflow_provider.core.origin import STOPPED_BY
from siflow_provider.core.patience import UNTIL_ALLOWED, patiently
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendUnavailable, NameTaken

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import Backend, FoundRun, RenderContext
    from siflow_provider.core.status import JobRef, Status
    from siflow_provider.core.trail import Trail

__all__ = ["end_older", "find_all", "find_mine", "find_own"]

_GONE_SECONDS = 180.0
_LET_GO_SECONDS = 60.0
"""How long a run whose owner is not known may take to end by itself: the triggerer of a deleted DAG run stops it."""
_AT_ONCE = 4
"""Generations that are looked for at once. So many may have been removed below one that lives."""
_SAME_IDS = "DAG run with the same ids"


async def find_all(backend: Backend, identity: Identity, *, trail: Trail | None = None) -> dict[int, FoundRun]:
    """Return the newest attempt of every run with these ids, by its generation, whichever DAG run made it.

    Any of them may have been removed while a later one lives.
    """
    found: dict[int, FoundRun] = {}
    numbers = range(_AT_ONCE)
    while True:
        there = await backend.find_each([identity.of_generation(number) for number in numbers], trail=trail)
        found |= {number: one for number, one in zip(numbers, there, strict=True) if one is not None}
        if not any(there):
            return found
        numbers = range(numbers.stop, numbers.stop + _AT_ONCE)


async def find_mine(backend: Backend, context: RenderContext, *, trail: Trail | None = None) -> JobRef | None:
    """Return the newest attempt that this very task instance has submitted; None when there is none.

    Args:
        backend: opened.
        context: whose run it is.
        trail: as `Backend.find_each` takes it.
    """
    found = await find_all(backend, context.identity, trail=trail)
    for _, one in sorted(found.items(), reverse=True):
        if not one.leaving and _is_own(await backend.status(one.ref), context):
            return one.ref
    return None


async def find_own(
    backend: Backend, context: RenderContext, reporter: Reporter, *, trail: Trail
) -> tuple[RenderContext, Status | None]:
    """Return the context of this task instance's own run, and what its newest attempt does where there is one.

    A run of an earlier DAG run keeps its name, its result and its data, and is stopped where it still lives; the own
    run is then another generation.

    Args:
        backend: opened.
        context: of the first generation.
        reporter: who is told.
        trail: as `Backend.find_each` takes it.

    Raises:
        NameTaken: a run with these ids lives that may be another Airflow's.
        BackendUnavailable: an earlier one does not end.
    """
    found = await patiently(
        lambda: find_all(backend, context.identity, trail=trail),
        what="looking for an earlier submission",
        reporter=reporter,
    )
    others: dict[int, tuple[RenderContext, FoundRun, Status]] = {}
    for number, one in found.items():
        status = await patiently(
            lambda one=one: backend.status(one.ref),  # type: ignore[misc]
            what=f"asking whose {one.ref.name} is",
            reporter=reporter,
            ride=UNTIL_ALLOWED,
        )
        own = replace(context, identity=context.identity.of_generation(number))
        if status.phase is Phase.LOST and status.origin is None:
            continue  # it went since it was found
        if _is_own(status, context):
            return own, None if one.leaving else status
        others[number] = own, one, status
    for own, one, status in others.values():
        await _make_way(backend, own, one, status, reporter, trail=trail)
    return replace(context, identity=context.identity.of_generation(max(others, default=-1) + 1)), None


async def _make_way(
    backend: Backend, context: RenderContext, one: FoundRun, status: Status, reporter: Reporter, *, trail: Trail
) -> None:
    """See to it that a run of another task instance, of the context's ids, does not run beside this one's."""
    name = one.ref.name
    if one.leaving:
        await patiently(
            lambda: _removed(backend, status, context, trail), what=f"waiting until nothing of {name} is left",
            reporter=reporter,
        )  # fmt: skip
    elif status.phase.terminal:
        reporter.note(f"{name} belongs to an earlier DAG run with the same ids: it is left as it ended")
    elif context.identity.installation or context.detached:
        await end_older(backend, one.ref, reporter, whose=_SAME_IDS, detached=context.detached)
    else:
        await _expect_end(backend, status, reporter)


async def _removed(backend: Backend, status: Status, context: RenderContext, trail: Trail) -> None:
    """Return when a run that somebody deletes is gone, without a word of ours on it.

    Raises:
        BackendUnavailable: it is still there.
    """
    ref = status.ref
    (there,) = await backend.find_each([context.identity], trail=replace(trail, context=ref.context))
    if there is not None and there.ref.uid == ref.uid:
        raise BackendUnavailable(f"{ref.name} of an earlier {_SAME_IDS} is still being removed.")
    await backend.stop(ref, by=f"{STOPPED_BY} a new {_SAME_IDS}")  # its processes may go after it


async def _expect_end(backend: Backend, status: Status, reporter: Reporter) -> None:
    ref, whose = status.ref, f"another task instance with the same ids ({status.origin})"
    reporter.note(f"{ref.name} still runs and belongs to {whose}: waiting for its end", warning=True)
    if await _ends_within(backend, ref, _LET_GO_SECONDS):
        return
    raise NameTaken(
        f"{ref.name} runs and belongs to {whose}: of an earlier DAG run, or of another Airflow that shares this place.",
        hint=(
            "Give each Airflow an `[siflow] installation` of its own before this task is cleared: runs of another one "
            "are then never touched, and those of an earlier DAG run are stopped. "
            f"If it is nobody's, `siflow-provider stop {ref.name}` ends it."
        ),
    )


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
    if not await _ends_within(backend, ref, _GONE_SECONDS):
        raise BackendUnavailable(
            f"{ref.name} of an earlier {whose} has not ended {_GONE_SECONDS:g} s after it was stopped.",
            hint="Stop it by hand, then clear the task.",
        )
    await finish_run(backend, ref, reporter)


async def _ends_within(backend: Backend, ref: JobRef, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            async for status in backend.watch(ref):
                if status.phase.terminal:
                    return True
    except TimeoutError:
        return False
    return False


def _is_own(status: Status, context: RenderContext) -> bool:
    """Say whether this instance submitted the run; where either does not say who it is, the ids decide alone."""
    instance = "" if status.origin is None else status.origin.instance
    return not instance or not context.instance or instance == context.instance
