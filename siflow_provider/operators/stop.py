"""How a worker leg ends a run that nobody follows any more: told first, all else as far as the time goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends import make_backend
from siflow_provider.core.alarms import Alarms
from siflow_provider.core.earlier import find_mine
from siflow_provider.core.expiry import finish_run, stop_run
from siflow_provider.core.origin import STOPPED_BY
from siflow_provider.core.patience import patiently
from siflow_provider.core.status import Phase
from siflow_provider.operators.bridge import run_blocking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.outcome import AlertRule
    from siflow_provider.core.protocol import Backend, RenderContext
    from siflow_provider.core.status import JobRef
    from siflow_provider.core.trail import Trail
    from siflow_provider.triggers.killed import KillAction
    from siflow_provider.triggers.reporter import TaskReporter

__all__ = ["KILL_SECONDS", "LEG_SECONDS", "stop_quietly"]

KILL_SECONDS = 4.0
"""Airflow kills a worker five seconds after it told it to stop."""
LEG_SECONDS = 300.0
"""Where Airflow gave the wait up and the worker lives on: a backend that is down for a moment is waited for."""


@dataclass
class _Stop:
    """One stop, and how far it has come.

    Attributes:
        whose: whose run it is, where the leg knows of none yet.
        ref: the attempt that the leg knows of: asking for it would cost the time that the stop needs.
        why: who asked, in plain words.
        alerts: whom to tell.
        trail: what leads to the run where it is asked for.
        told: the backend has been told to stop `ref`, and was not found to have ended before.
    """

    whose: RenderContext
    reporter: TaskReporter
    why: str
    ref: JobRef | None
    alerts: Sequence[AlertRule]
    trail: Trail | None = None
    told: bool = False


def stop_quietly(
    settings: Settings,
    whose: RenderContext,
    reporter: TaskReporter,
    action: KillAction,
    why: str,
    *,
    ref: JobRef | None = None,
    trail: Trail | None = None,
    alerts: Sequence[AlertRule] = (),
    seconds: float = KILL_SECONDS,
) -> bool:
    """End (or, with `detach`, leave) the newest attempt of a run; say whether there was one that ends by it.

    Blocks for that many seconds at most and never raises. Has a loop and a thread of its own: it is called in a signal
    handler, and where an Airflow timer has just ended the leg's own.
    """
    if action == "detach":
        reporter.note(f"{why}: its run is left running (on_kill_action='detach')", warning=True)
        return False
    stop = _Stop(whose, reporter, why, ref, alerts, trail)
    try:
        run_blocking(lambda: _stop(settings, stop), timeout=seconds)
    except Exception as error:
        _tell_unfinished(stop, "no answer in time" if isinstance(error, TimeoutError) else str(error))
    return stop.told


def _tell_unfinished(stop: _Stop, why: str) -> None:
    if stop.told and stop.ref is not None:
        stop.reporter.note(f"{stop.ref.name} is told to stop, and nobody waits here until its last process has ended")
        return
    name = "its run" if stop.ref is None else stop.ref.name
    by_hand = "" if stop.ref is None else f"; `siflow-provider stop {stop.ref.name}` ends it"
    text = f"{stop.why}: {name} could not be stopped and may still be there: {why}{by_hand}"
    stop.reporter.note(text, warning=True)


async def _stop(settings: Settings, stop: _Stop) -> None:
    async with make_backend(settings) as backend:
        if stop.ref is None:
            stop.ref = await find_mine(backend, stop.whose, trail=stop.trail)
        if stop.ref is not None:
            await _end(backend, stop, stop.ref)


async def _end(backend: Backend, stop: _Stop, ref: JobRef) -> None:
    by = f"{STOPPED_BY} {stop.why}"
    if not await stop_run(backend, ref, stop.reporter, by=by, wait=False):
        return
    stop.told = True
    status = await patiently(lambda: backend.status(ref), what=f"looking at {ref.name}", reporter=stop.reporter)
    if status.phase.terminal and status.phase is not Phase.STOPPED:
        stop.told = False  # it had ended by itself
        return
    if status.veil.marks:  # who was told that the wait is over may not know the form
        stop.reporter = stop.reporter.behind(status.veil)
    stop.reporter.note(f"{stop.why}: stopping {ref.name}")
    # what must be done is done before its processes, which may take longer than this one lives, have ended
    await finish_run(backend, ref, stop.reporter)
    alarms = Alarms(stop.alerts, stop.reporter)
    alarms.fire("stopped", status, stop.why)
    await alarms.close()
    await stop_run(backend, ref, stop.reporter, by=by)
