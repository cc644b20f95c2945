"""After a kill of a deferred task: is it really a user's action, and if so, end the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from siflow_provider.backends import make_backend
from siflow_provider.core.alarms import Alarms
from siflow_provider.core.expiry import finish_run, stop_run
from siflow_provider.core.origin import STOPPED_BY
from siflow_provider.errors import SiflowError
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.store import Store, in_thread

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import JobRef
    from siflow_provider.hooks.siflow import SiflowHook
    from siflow_provider.triggers.run import RunTriggerData

__all__ = ["KillAction", "keep_running", "killed_by", "stop_if_killed"]

KillAction = Literal["stop", "detach"]
"""What a kill of the Airflow task does to its run: end it, or leave it."""

_running: set[asyncio.Task[None]] = set()
"""An event loop keeps only weak references to its tasks."""


def keep_running(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start work that goes on when whoever waits for it is cancelled."""
    task = asyncio.get_running_loop().create_task(work, name="siflow-on-kill")
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def killed_by(state: str | None) -> str | None:
    """Return the user's action that a task instance's state tells of; None when nobody acted.

    A task that is still deferred was only handed to another triggerer, or has been cleared and is deferred again for
    its new try, which stops the older try's run before it submits its own.

    Example:
        >>> killed_by("failed"), killed_by("deferred")
        ('the task was marked failed', None)
    """
    match state:
        case "deferred":
            return None
        case "failed" | "success" | "skipped":
            return f"the task was marked {state}"
        case None:
            return "the task instance was removed or cleared"
        case _:
            return "the task was cleared"


async def stop_if_killed(ref: JobRef, instance: Any, hook: SiflowHook, log: Any, data: RunTriggerData) -> None:
    """Stop the run where the task's state says that a user acted; never raises.

    Args:
        ref: the attempt: only ever this try's own.
        instance: the task instance, as the triggerer knows it.
        hook: gives the backend's settings; a backend of its own is opened, as `run()` closes its one.
        log: the trigger's logger.
        data: the trigger's data, for the veil, the alerts and `on_kill_action`.
    """
    try:
        state = await in_thread(_state, instance)
        why = killed_by(state)
        if why is None:
            log.info("%s goes on: nobody acted on the task, another triggerer follows it", ref.name)
        elif data.on_kill_action == "detach":
            log.warning("%s; %s is left running (on_kill_action='detach')", why, ref.name)
        else:
            await _stop(ref, instance, hook, log, data, why=why)
    except Exception as error:
        text = str(error) if isinstance(error, SiflowError) else repr(error)
        by_hand = f"`siflow-provider stop {ref.name}` ends it"
        log.error(  # noqa: TRY400
            "could not stop %s after a kill of its task, it may still run: %s %s",
            ref.name,
            data.veil.over(text),
            by_hand,
        )


async def _stop(ref: JobRef, instance: Any, hook: SiflowHook, log: Any, data: RunTriggerData, *, why: str) -> None:
    reporter = TaskReporter(log, Store(instance), veil=data.veil)
    reporter.note(f"{why}: stopping {ref.name}")
    async with make_backend(await hook.asettings(expected=ref.backend)) as backend:
        if not await stop_run(backend, ref, reporter, by=f"{STOPPED_BY} {why}"):
            return
        reporter.note(f"{ref.name} is stopped")
        await finish_run(backend, ref, reporter)
        await _tell(backend, ref, data, reporter, why)


async def _tell(backend: Backend, ref: JobRef, data: RunTriggerData, reporter: TaskReporter, why: str) -> None:
    alarms = Alarms(data.policy.alerts, reporter)
    alarms.fire("stopped", await backend.status(ref), why)
    await alarms.close()


def _state(instance: Any) -> str | None:
    """Ask Airflow for the task instance's state; None when there is no such instance any more, or it was cleared."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    index = -1 if instance.map_index is None else instance.map_index
    states = RuntimeTaskInstance.get_task_states(
        dag_id=instance.dag_id, task_ids=[instance.task_id], run_ids=[instance.run_id]
    )
    name = instance.task_id if index < 0 else f"{instance.task_id}_{index}"
    found = states.get(instance.run_id, {}).get(name)
    return None if found is None else str(getattr(found, "value", found))
