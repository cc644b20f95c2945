"""`TrainingNotifier`: a task's end told through the same channels as the form's alerts, by Airflow's own callbacks."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from siflow_provider.hooks.alerts import deliver
from siflow_provider.operators.bridge import run_blocking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

__all__ = ["TrainingNotifier"]

_OF_STATE = {
    "success": "succeeded",
    "failed": "failed",
    "up_for_retry": "retrying",
    "running": "started",
    "skipped": "skipped",
}


class TrainingNotifier(BaseNotifier):
    """Send one message to Airflow connections of the apprise provider; for callbacks and deadlines.

    A channel that is dead, slow or wrong costs a warning and never the task's state.

    Args:
        connections: Airflow connection ids.
        event: one of the form's alert events; left out, it follows from the task's state.
        title: left out, task and event.
        message: left out, where the task ran and, for a failure, its reason.
        kwargs: what Airflow itself hands over (the context, for a deadline).

    Example:
        PyTorchJobOperator(..., on_failure_callback=TrainingNotifier(connections=["apprise_nlp"]))
    """

    template_fields: Sequence[str] = ("connections", "event", "title", "message")

    def __init__(
        self,
        *,
        connections: str | Sequence[str],
        event: str = "",
        title: str = "",
        message: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.connections = [connections] if isinstance(connections, str) else list(connections)
        self.event = event
        self.title = title
        self.message = message

    def __call__(self, *args: Any) -> None:
        """Render and send, each time from the templates: one object may tell of many tasks in one process.

        Airflow renders in place, and a DAG processor or `airflow dags test` calls the same object again (source:
        task-sdk 1.3.2 `bases/notifier.py`, render_template_fields).
        """
        BaseNotifier.__call__(copy.copy(self), *args)

    def notify(self, context: Context) -> None:
        """Send from a worker or the DAG processor. Never raises; done within `ALERT_SECONDS`."""
        run_blocking(lambda: self.async_notify(context))

    async def async_notify(self, context: Context) -> None:
        """Send from the triggerer. Never raises; done within `ALERT_SECONDS`."""
        event = self.event or _event(context)
        title = self.title or f"SiFlow: {_where(context)} {event.replace('_', ' ')}"
        body = self.message or _reason(context) or title
        await asyncio.gather(*(deliver(each, title=title, body=body, event=event) for each in self.connections))


def _event(context: Mapping[str, Any]) -> str:
    if _is_dag_success(context):
        return "succeeded"
    state = _state(context)
    if context.get("exception") is not None and state != "up_for_retry":
        return "failed"
    return _OF_STATE.get(state, "queued_too_long" if "deadline" in context else "failed")


def _state(context: Mapping[str, Any]) -> str:
    """Return the task's state; a DAG processor, which tells the end of a lost worker, knows the tries alone.

    The context of a DAG's own callback holds a task of the run and a `reason`: that task's tries decide nothing.
    """
    instance = context.get("ti")
    state = getattr(instance, "state", None)
    most = getattr(instance, "max_tries", None)
    if state is None and instance is not None and most is not None and "reason" not in context:
        return "up_for_retry" if instance.try_number <= most else "failed"
    return str(getattr(state, "value", state) or "")  # the text of Airflow's enum is no state


def _is_dag_success(context: Mapping[str, Any]) -> bool:
    """Say whether a DAG's own `on_success_callback` is called: the task that its context names is just the last one."""
    return context.get("reason") == "success"


def _instance(context: Mapping[str, Any]) -> Any:
    return None if _is_dag_success(context) else context.get("ti")


def _where(context: Mapping[str, Any]) -> str:
    instance = _instance(context)
    if instance is not None:
        index = f"[{instance.map_index}]" if getattr(instance, "map_index", -1) not in (-1, None) else ""
        return f"{instance.dag_id}.{instance.task_id}{index}"
    run = context.get("dag_run")
    # a deadline's context holds the DAG run as the API shows it
    return str(_get(run, "dag_id") or getattr(context.get("dag"), "dag_id", None) or "a DAG run")


def _reason(context: Mapping[str, Any]) -> str:
    instance, run = _instance(context), context.get("dag_run")
    ids = (getattr(instance, "run_id", None), _get(run, "run_id"), _get(run, "dag_run_id"), context.get("run_id"))
    run_id = next(filter(None, ids), None)
    lines = [f"DAG run: {run_id}" if run_id else "", f"try: {instance.try_number}" if instance is not None else ""]
    error = context.get("exception")
    return "\n".join(line for line in (*lines, str(error) if error is not None else "") if line)


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)
