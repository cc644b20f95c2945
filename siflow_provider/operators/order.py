"""From an operator to an order: the form put together, checked, its names looked up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from siflow_provider.core.identity import default_prefix
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.veil import Veil
from siflow_provider.errors import Problem, SiflowError, SpecError
from siflow_provider.hooks.process import mask_now
from siflow_provider.hooks.siflow import SiflowHook
from siflow_provider.operators.form import form_fields, merge, unfold, unrendered
from siflow_provider.operators.keywords import wrong_arguments
from siflow_provider.operators.source import dag_path, document_of, rendered_content, resolved_form, user_of, wrong_form
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.document import as_mapping
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.store import Store, identity_of, instance_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow.sdk import Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.launch import QuotaPolicy
    from siflow_provider.core.outcome import FollowPolicy
    from siflow_provider.core.status import JobRef
    from siflow_provider.operators.task import SiflowTaskOperator
    from siflow_provider.spec.document import Document
    from siflow_provider.spec.resolve import ResolvedTask
    from siflow_provider.triggers.killed import KillAction
    from siflow_provider.triggers.run import Carried

_NET_BELOW = timedelta(minutes=10)
"""How much later than we would the cluster ends a run: it acts only where nobody of ours is left to watch the clock."""

__all__ = ["Order", "check_at_parse", "form_at_parse", "order_of", "prefix_of", "rendered_form", "spec_fields"]


@dataclass(frozen=True, slots=True)
class Order:
    """One try's task, ready to be run.

    Attributes:
        settings: what the backend is opened with.
        task: validated, names looked up.
        context: whose run it is; attempt 1.
        policy: for the whole run, no attempt's ledger applied.
        quota: what a proof that the task can never be admitted does.
        on_kill_action: `detach` leaves runs of older tries alone.
        reporter: who is told.
        store: where name, uid and links are published.
        veil: over the task's hidden values.
        carried: what the try remembers from its earlier legs.
        known: attempts that this leg has submitted or found, the newest last: a kill can stop it without asking for it.
    """

    settings: Settings
    task: ResolvedTask
    context: RenderContext
    policy: FollowPolicy
    quota: QuotaPolicy
    on_kill_action: KillAction
    reporter: TaskReporter
    store: Store
    veil: Veil
    carried: Carried
    known: list[JobRef] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        """The prefix of the job's names."""
        identity = self.context.identity
        return self.task.task.name_prefix or default_prefix(identity.dag_id, identity.task_id)


def check_at_parse(operator: SiflowTaskOperator, wrong: Sequence[Problem] = (), *, text: Any = None) -> None:
    """Check all of the operator's form that is known while the DAG file is read.

    Args:
        operator: as its `__init__` made it.
        wrong: what was found wrong before; the form is not checked when it is the spec.
        text: what the spec was made of, for lines and columns where it was YAML text.

    Raises:
        SpecError: with every problem at once; Airflow shows it as the file's import error.
    """
    problems = [*wrong, *wrong_arguments(operator)]
    if not is_unknown(operator.spec) and all(problem.path != "spec" for problem in wrong):
        # else it is not known what the form is made of
        problems += wrong_form(
            operator, "spec", _own_catalog(operator), text=text, kind=operator.model.__name__,
            complete=lambda document: _parsed_form(operator, document),
        )  # fmt: skip
    if problems:
        raise SpecError(problems, source=f"task {operator.task_id!r}")


def spec_fields(operator: SiflowTaskOperator) -> frozenset[str]:
    """Return the fields that the operator's spec gives, where it is known what the spec is.

    Raises:
        SpecError: the spec can't be read.
    """
    if is_unknown(operator.spec):
        return frozenset()
    return frozenset(map(str, as_mapping(document_of(operator, operator.spec, what="spec").data, what="spec")))


def form_at_parse(operator: SiflowTaskOperator) -> dict[str, Any]:
    """Return the operator's whole form as the DAG file gives it, templates as they stand."""
    return _parsed_form(operator, document_of(operator, operator.spec, what="spec"))


def order_of(operator: SiflowTaskOperator, context: Context, carried: Carried) -> Order:
    """Validate the rendered task in full and look its names up.

    Args:
        operator: rendered.
        context: of this leg.
        carried: what the try remembers; its prefix is "" in the first leg.

    Raises:
        SpecError: the form, or what it names, is wrong; every problem at once.
        UsageError: the connection can't be used.
    """
    operator.prepare_form(context)
    raw = rendered_form(operator, context)
    if carried.prefix:
        raw["name_prefix"] = carried.prefix
    settings = SiflowHook(operator.conn_id).settings()
    task, warnings = resolved_form(
        operator, raw, settings, _own_catalog(operator),
        source=f"task {operator.task_id!r}", kind=operator.model.__name__,
    )  # fmt: skip
    hidden = [value.reveal() for value in task.hidden.values()]
    mask_now(hidden)
    store, veil = Store(context["ti"]), Veil.of(hidden)
    reporter = TaskReporter(operator.log, store, veil=veil)
    for warning in warnings:
        reporter.note(str(warning), warning=True)
    return Order(
        settings=settings,
        task=task,
        context=_render_context(operator, settings, context),
        policy=follow_policy(task, logs=_selection(operator.logs), deadline=carried.deadline),
        quota=operator.quota,
        on_kill_action=operator.on_kill_action,
        reporter=reporter,
        store=store,
        veil=veil,
        carried=carried,
    )


def _render_context(operator: SiflowTaskOperator, settings: Settings, context: Context) -> RenderContext:
    detached = operator.on_kill_action == "detach"
    limit = None if detached else operator.execution_timeout
    return RenderContext(
        identity_of(context["ti"]),
        user_name=user_of(operator, settings),
        detached=detached,
        last_net_seconds=None if limit is None else math.ceil((limit + _NET_BELOW).total_seconds()),
        instance=instance_id(context["ti"]),
    )


def _raw_form(operator: SiflowTaskOperator, spec: Mapping[str, Any]) -> dict[str, Any]:
    names = form_fields(operator.model)
    own = {name: unfold(value) for name in names if (value := getattr(operator, name)) is not None}
    return merge(operator.model.__name__, spec, own, weak=operator.weak_fields)


def _parsed_form(operator: SiflowTaskOperator, document: Document) -> dict[str, Any]:
    raw = _raw_form(operator, unfold(document.data))
    return {name: unrendered(value) for name, value in raw.items()}


def rendered_form(operator: SiflowTaskOperator, context: Context) -> dict[str, Any]:
    """Return the whole raw form of a rendered operator: its spec and, above it, its own keywords."""
    return _raw_form(operator, rendered_content(operator, operator.spec, context, what="spec"))


def prefix_of(operator: SiflowTaskOperator, context: Context) -> str:
    """Return the prefix of the job's names as this leg renders it, whatever else is wrong with the form."""
    try:
        given = rendered_form(operator, context).get("name_prefix")
    except SiflowError:
        given = None
    identity = identity_of(context["ti"])
    return given if isinstance(given, str) and given else default_prefix(identity.dag_id, identity.task_id)


def _own_catalog(operator: SiflowTaskOperator) -> Path | None:
    return None if operator.catalog is None else dag_path(operator, operator.catalog)


def _selection(logs: Any) -> Any:
    return logs if isinstance(logs, str) else tuple(logs)
