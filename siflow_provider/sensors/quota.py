"""`QuotaSensor`: waits until a whole training task fits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import PokeReturnValue
from airflow.sdk.definitions.mappedoperator import MappedOperator

from siflow_provider.backends import make_backend
from siflow_provider.core.room import Demand, News, Room, look_for_room
from siflow_provider.errors import BackendUnavailable, NeverAdmissibleError, UnsupportedError, UsageError
from siflow_provider.hooks.siflow import DEFAULT_CONN_ID, SiflowHook
from siflow_provider.operators.bridge import run_blocking
from siflow_provider.operators.form import conceal, hide_defaults
from siflow_provider.operators.keywords import refuse
from siflow_provider.operators.rendering import RendersForms
from siflow_provider.operators.source import dag_path
from siflow_provider.operators.task import SiflowTaskOperator
from siflow_provider.sensors.base import Refused, SiflowSensor, refusing
from siflow_provider.sensors.form import TaskSource, check_at_parse, resolved_task
from siflow_provider.triggers.quota import QuotaTrigger

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["QuotaSensor"]


class QuotaSensor(RendersForms, SiflowSensor):
    """Wait until the whole task (all replicas, never one of them) could be admitted now.

    Says each time why not yet, with the number that is short, and again only when that changes. A task that could
    never be admitted fails at once, whatever `soft_fail` says. Room is no reservation: of several sensors that pass at
    the same moment, the tasks behind them queue for it in the queue's own order.

    Args:
        task: a task file, YAML text, a mapping, a `PyTorchJob`, a `RayJob`, or the operator that will run it (rendered
            in this sensor's own context).
        conn_id: the Airflow connection; left out, the operator's, else `siflow_default`.
        catalog: path of a catalog file; left out, the operator's, else the connection's, else `[siflow] catalog`.
        deferrable: wait in the triggerer (the default, unless `mode="reschedule"`).
        poke_interval: seconds between two looks, in every mode.
        timeout, execution_timeout, soft_fail, mode: and every other keyword of an Airflow sensor.
        kwargs: the same.

    Example:
        QuotaSensor(task_id="quota", task=train, timeout=6 * 3600, soft_fail=True) >> train
    """

    template_fields: Sequence[str] = ("task",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "yaml"}
    ui_color = "#e6f4ea"

    task: TaskSource
    conn_id: str
    catalog: str | None
    _news: News | None = None

    def __init__(
        self,
        *,
        task: TaskSource,
        conn_id: str | None = None,
        catalog: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(deferrable=deferrable, **kwargs)
        if isinstance(task, MappedOperator):
            raise UsageError(
                f"QuotaSensor {self.task_id!r}: {task.task_id!r} is mapped and has as many forms as inputs.",
                hint="Give the sensor the form itself, or map the sensor over the same inputs.",
            )
        self.task = self._wrapped(task)
        hide_defaults(self.get_dag())
        operator = task if isinstance(task, SiflowTaskOperator) else None
        self.conn_id = conn_id or (operator.conn_id if operator is not None else DEFAULT_CONN_ID)
        self.catalog = catalog
        if self.made_of_mapped:
            refuse(self._wrong, task_id=self.task_id)
        else:
            check_at_parse(self, self._wrong)

    def settle_form(self) -> None:
        """Read a task that is YAML text, and wrap its hidden values."""
        self.task = conceal(self.task)

    def catalog_source(self) -> Path | None:
        """Return the file that the sensor or its operator names; a relative path starts at the DAG file's folder."""
        path = self.catalog or (self.task.catalog if isinstance(self.task, SiflowTaskOperator) else None)
        return dag_path(self, path) if path else None

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render a form as operators do; of an operator a copy, which renders itself."""
        if isinstance(content, SiflowTaskOperator):
            # the operator itself may run next in this very process (`airflow dags test`), with values of its own
            copied = content.prepare_for_execution()
            copied.render_template_fields(context, jinja_env)
            return copied
        return super().render_template(content, context, jinja_env, seen_oids)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once, and say why not yet."""
        with refusing():
            settings, task = self._resolve(context)
            room = run_blocking(lambda: _look(settings, task))
            return self._judged(room)

    def wait_deferred(self, context: Context) -> Any:
        """Wait in the triggerer, which gets sizes, queues and counts, and nothing else of the task."""
        with refusing():
            settings, task = self._resolve(context)
        demand = Demand.of(task).model_dump(mode="json")
        self.defer(
            trigger=QuotaTrigger(
                self.conn_id,
                demand,
                interval=self.poke_interval,
                backend=settings.backend,
                deferred_at=datetime.now(UTC).isoformat(),
            ),
            method_name="resume",
            timeout=self.time_to_wait(),
        )

    def resume(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, str]:
        """End the wait as the trigger's event says."""
        if event["error"]:
            raise Refused(event["error"])
        if not event["fits"]:
            raise Refused(str(_never(event["text"])))
        self.log.info("%s", event["text"])
        return dict(event["room"])

    def _resolve(self, context: Context) -> tuple[Settings, ResolvedTask]:
        settings = SiflowHook(self.conn_id).settings()
        return settings, resolved_task(self, context, settings)

    def _judged(self, room: Room) -> bool | PokeReturnValue:
        if room.never:
            raise _never(room.text)
        self._news = self._news or News()
        if not room.fits:
            if self._news.is_new(room.text):
                self.log.info("no room yet: %s", room.text)
            return False
        self.log.info("%s", room.text)
        return PokeReturnValue(is_done=True, xcom_value=room.summary())


async def _look(settings: Settings, task: ResolvedTask) -> Room:
    """Open the backend and ask it once; one that can't be reached leaves the question open."""
    reasons = make_backend(settings).unsupported(task)
    if reasons:
        raise UnsupportedError(reasons, backend=settings.backend)
    try:
        async with make_backend(settings) as backend:
            return await look_for_room(backend, task)
    except BackendUnavailable as error:
        return Room.unknown(error)


def _never(proof: str) -> NeverAdmissibleError:
    return NeverAdmissibleError(
        f"this task can never be admitted: {proof}.", hint="Ask for less, or for another instance."
    )
