"""The operator behind every kind: validate, find or submit, publish, look once, defer; or, sync, follow to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowTaskTimeout

from siflow_provider.core.attempts import Step
from siflow_provider.core.outcome import RunEnd
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.trail import LONG_GAP, Trail
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendError, RunFailed, SiflowError, SpecError
from siflow_provider.hooks.siflow import SiflowHook
from siflow_provider.links import LINKS
from siflow_provider.operators.arguments import KillAction, Logs, QuotaPolicy
from siflow_provider.operators.bridge import Interrupt, run_blocking
from siflow_provider.operators.deferral import deferral
from siflow_provider.operators.form import conceal, form_fields, hide_defaults
from siflow_provider.operators.keywords import refuse, unknown_keywords, without, wrong_arguments
from siflow_provider.operators.leg import advance, launch_and_look, run_to_end, tell_end
from siflow_provider.operators.order import check_at_parse, order_of, prefix_of, spec_fields
from siflow_provider.operators.outcome import airflow_errors, finish
from siflow_provider.operators.rendering import RendersForms
from siflow_provider.operators.source import under
from siflow_provider.operators.stop import KILL_SECONDS, LEG_SECONDS, stop_quietly
from siflow_provider.spec.task import PyTorchJob, RayJob
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.room import RoomEvent
from siflow_provider.triggers.run import Carried
from siflow_provider.triggers.store import Store, identity_of, instance_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from airflow.sdk import Context

    from siflow_provider.core.no_room import Waiting
    from siflow_provider.core.status import JobRef
    from siflow_provider.errors import Problem
    from siflow_provider.operators.order import Order

__all__ = ["OPTIONS", "SiflowTaskOperator"]

OPTIONS = ("spec", "conn_id", "catalog", "deferrable", "logs", "on_kill_action", "quota")
"""The keyword arguments that are no form fields."""
OVERTIME_SECONDS = 20.0
_KILLED = "the task was killed"
T = TypeVar("T")


class SiflowTaskOperator(RendersForms):
    """What `PyTorchJobOperator` and `RayJobOperator` share; not for use by itself.

    Attributes:
        model: the form's model.
        spec: a file, YAML text, a mapping or a model with form fields; the operator's own keywords win over it, and it
            wins over what only `default_args` gave. A relative path starts at the folder of the DAG file.
        conn_id: the Airflow connection that says where runs go.
        catalog: path of a catalog file; it wins over the connection's and over `[siflow] catalog`.
        deferrable: wait in the triggerer and hold no worker slot meanwhile.
        logs: whose lines the task log shows: `master` (a RayJob's submitter), `all`, `none`, or names of replicas.
        on_kill_action: what a kill of the Airflow task does to the run: `stop` it, or `detach`: leave it.
        quota: `require` fails a task that could never be admitted, `warn` says so, `ignore` doesn't ask.
    """

    model: ClassVar[type[PyTorchJob] | type[RayJob]]
    template_ext: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {"command": "bash", "spec": "yaml"}
    operator_extra_links = LINKS
    ui_color = "#e8f0fe"

    spec: str | Path | dict[str, Any] | PyTorchJob | RayJob | None
    conn_id: str
    catalog: str | None
    deferrable: bool
    logs: Logs
    on_kill_action: KillAction
    quota: QuotaPolicy
    weak_fields: frozenset[str] = frozenset()

    region: Any
    cluster: Any
    project_group: Any
    name_prefix: Any
    visible_in_group: Any
    timezone: Any
    labels: Any
    image: Any
    env: Any
    volumes: Any
    datasets: Any
    models: Any
    command: Any
    shm_size: Any
    compute: Any
    workers: Any
    priority: Any
    queue_timeout: Any
    start_timeout: Any
    fault_tolerance: Any
    monitoring: Any
    image_pull_retries: Any
    ssh: Any
    alerts: Any
    kubernetes: Any

    _given: frozenset[str]
    _unknown: tuple[Problem, ...] = ()
    _order: Order | None = None
    _interrupt: Interrupt | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> SiflowTaskOperator:
        """Remember which keywords were written at this very task, before Airflow adds those of `default_args`."""
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(kwargs))
        return made

    def __init__(self, **kwargs: Any) -> None:
        unknown = unknown_keywords(type(self), kwargs)
        super().__init__(**without(kwargs, unknown))
        self._unknown = unknown

    def _take(self, arguments: dict[str, Any], airflow: dict[str, Any]) -> None:
        """Keep the arguments under their own names, as they are (hidden values wrapped), and check the form."""
        defaults = airflow.get("default_args") or {}
        names = form_fields(self.model)
        for name in (*names, *OPTIONS):
            setattr(self, name, self._wrapped(arguments[name]))
        self.weak_fields = frozenset(
            name for name in names if name in defaults and name not in self._given and arguments[name] is defaults[name]
        )
        hide_defaults(self.get_dag())
        if self.made_of_mapped:
            refuse((*self._unknown, *wrong_arguments(self)), task_id=self.task_id)
            return  # made anew in the worker, which checks the rendered form
        wrong = self._unknown
        try:
            self.settle_form()
        except SpecError as error:
            self.spec, wrong = None, (*wrong, *under("spec", error))
        check_at_parse(self, wrong, text=arguments["spec"])

    def settle_form(self) -> None:
        """Read a spec that is YAML text, and keep no field of `default_args` that the spec overrides.

        So the serialized DAG and the rendered view show what runs, and of the text no hidden value.
        """
        self.spec = conceal(self.spec)
        if self.weak_fields:
            for name in self.weak_fields & spec_fields(self):
                setattr(self, name, None)

    def execute(self, context: Context) -> dict[str, Any]:
        """Validate, refuse or submit, publish, look once; then defer, or follow the run to its end."""
        deadline = None if self.execution_timeout is None else datetime.now(UTC) + self.execution_timeout
        self._interrupt = Interrupt()
        with airflow_errors():
            order = self._order = order_of(self, context, Carried(prefix="", deadline=deadline))
            if self.deferrable:
                return self._settled(order, self._blocking(order, lambda: launch_and_look(order)), context)
            return self._settled(order, self._blocking(order, lambda: run_to_end(order)), context)

    def prepare_form(self, context: Context) -> None:
        """Fill in what only a run can know; called before the form is validated. Decorated tasks ask their function."""

    def resume(self, context: Context, event: dict[str, Any], carried: dict[str, Any] | None = None) -> dict[str, Any]:
        """Go on after the trigger's event: with the result, or with the next attempt.

        Args:
            context: of this leg.
            event: what the trigger told; it alone is enough to go on.
            carried: what this try's own last leg had to remember.
        """
        self._interrupt = Interrupt()
        with airflow_errors():
            told = RoomEvent.model_validate(event)
            own = Carried.model_validate(carried or {"prefix": ""})
            mine = own.task_uuid or identity_of(context["ti"]).of_generation(told.carried.ledger.generation).task_uuid
            if told.carried.task_uuid != mine:
                return self._astray(context, own)
            if told.outcome is not None and told.outcome.final:
                if told.blind:
                    self._stop(context, told.blind, ref=told.outcome.ref)
                    self._order = order_of(self, context, told.carried)
                    self._blocking(self._order, partial(tell_end, self._order, told.outcome))
                return self._finished(RunEnd(told.outcome, told.carried.ledger.totals), context)
            order = self._order = order_of(self, context, told.carried)
            outcome = told.outcome
            if outcome is None:
                return self._settled(order, self._blocking(order, lambda: launch_and_look(order)), context)
            step = self._blocking(order, lambda: advance(order, outcome))
            part = told.carried.part + 1 if isinstance(step, Step) and step.ref == outcome.ref else 1
            return self._settled(order, step, context, part=part)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume; when Airflow failed the deferral itself (its timeout, a dead trigger), end the run first."""
        if next_method == "__fail__":
            self._stop(context, "Airflow ended the wait for the run")
        return super().resume_execution(next_method, next_kwargs, context)

    def on_kill(self) -> None:
        """End or leave the run when a worker is told to stop; called in a signal handler, with five seconds to live."""
        order = self._order
        # the follower sees the stop, tells it and ends; where nothing ran (before a submit, between two attempts) it is
        # cut short, or it would go on to the next attempt; also before it began: Airflow lets the leg go on
        found = order is not None and self._end(order, _KILLED, ref=order.known[-1] if order.known else None)
        if not found and self._interrupt is not None:
            self._interrupt()

    def _blocking(self, order: Order, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the leg, within what is left of the whole try's `execution_timeout`."""
        deadline = order.policy.deadline
        left = None if deadline is None else max(0.0, (deadline - datetime.now(UTC)).total_seconds()) + OVERTIME_SECONDS
        try:
            # the follower knows the deadline itself and ends the run with its evidence: it gets the time to do so
            return run_blocking(
                make, timeout=left, late=AirflowTaskTimeout, overtime=OVERTIME_SECONDS, interrupt=self._interrupt
            )
        except asyncio.CancelledError:
            if self.on_kill_action == "stop":  # a submit that was under way can't be cut short
                self._end(order, _KILLED)
            raise
        except (TimeoutError, AirflowTaskTimeout):
            why = f"the try took longer than execution_timeout ({self.execution_timeout})"
            self._end(order, why, action="stop", seconds=LEG_SECONDS)
            raise BackendError(f"timeout: {why}.", hint="Give it more time, or find out what it waits for.") from None
        except AirflowException:  # Airflow's own word on how the try goes on: it may come again, and adopts its run
            raise
        except Exception as error:
            if order.known:  # nobody follows it any more, and there may be no further try to end it
                self._end(order, f"the task failed: {error!r}", ref=order.known[-1], seconds=LEG_SECONDS)
            raise

    def _end(
        self,
        order: Order,
        why: str,
        *,
        ref: JobRef | None = None,
        action: KillAction | None = None,
        seconds: float = KILL_SECONDS,
    ) -> bool:
        return stop_quietly(
            order.settings, order.context, order.reporter, action or self.on_kill_action, why,
            ref=ref, trail=Trail.of(order.task, order.context.identity), alerts=order.policy.alerts, seconds=seconds,
        )  # fmt: skip

    def _settled(
        self, order: Order, result: Step | RunEnd | Waiting, context: Context, *, part: int = 1
    ) -> dict[str, Any]:
        if isinstance(result, RunEnd):
            return self._finished(RunEnd(order.veil.over_outcome(result.outcome), result.totals), context)
        waits = deferral(order, result, conn_id=self.conn_id, part=part)
        self.defer(trigger=waits.trigger, method_name="resume", kwargs=waits.kwargs, timeout=waits.timeout)

    def _astray(self, context: Context, carried: Carried) -> dict[str, Any]:
        """Wait on for this try's own run after an event of an older try.

        After a clear the older try's trigger lives on for a second or two; where the database gives its number to the
        new try's trigger (SQLite does), its event wakes the new try.
        """
        self.log.warning("an event of an earlier try came late and is left aside")
        order = self._order = order_of(self, context, carried)
        return self._settled(order, self._blocking(order, lambda: launch_and_look(order)), context)

    def _finished(self, end: RunEnd, context: Context) -> dict[str, Any]:
        try:
            return finish(end)
        except RunFailed as error:
            if self.do_xcom_push:
                context["ti"].xcom_push(key="return_value", value=error.summary)
            raise

    def _stop(self, context: Context, why: str, *, ref: JobRef | None = None) -> None:
        """End or leave this try's run when nobody follows it any more."""
        instance = context["ti"]
        reporter = TaskReporter(self.log, Store(instance), veil=Veil())
        try:
            settings = SiflowHook(self.conn_id).settings()
        except SiflowError as error:
            reporter.note(f"{why}, and it can't be stopped from here: {error}", warning=True)
            return
        whose = RenderContext(identity_of(instance), instance=instance_id(instance))
        trail = Trail(prefix_of(self, context), gap=LONG_GAP)  # Airflow hands on nothing of what the leg had carried
        stop_quietly(settings, whose, reporter, self.on_kill_action, why, ref=ref, trail=trail, seconds=LEG_SECONDS)
