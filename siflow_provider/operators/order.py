"""From an operator to an order: the form put together, checked, its names looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from zoneinfo import available_timezones

from pydantic import BaseModel

from siflow_provider.core.identity import default_prefix
from siflow_provider.core.launch import QuotaPolicy
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.veil import Veil
from siflow_provider.errors import Problem, SpecError
from siflow_provider.hooks.process import mask_now
from siflow_provider.hooks.siflow import SiflowHook, find_catalog
from siflow_provider.operators.form import form_fields, hide, merge, spec_path, unfold, unrendered
from siflow_provider.operators.keywords import wrong_waits
from siflow_provider.operators.templates import jinja_of
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.document import Document, as_mapping, is_file_name, read_document
from siflow_provider.spec.dump import to_fields
from siflow_provider.spec.load import check
from siflow_provider.spec.resolve import resolve
from siflow_provider.triggers.killed import KillAction
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.store import Store, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow.sdk import BaseOperator, Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.outcome import FollowPolicy
    from siflow_provider.operators.task import SiflowTaskOperator
    from siflow_provider.spec.resolve import ResolvedTask
    from siflow_provider.triggers.run import Carried

_CHOICES = {"quota": get_args(QuotaPolicy), "on_kill_action": get_args(KillAction)}
_LOGS = ("master", "all", "none")

__all__ = ["Order", "check_at_parse", "form_at_parse", "order_of", "spec_fields", "under"]


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
    problems = [*wrong, *wrong_waits(operator), *_wrong_options(operator)]
    if not is_unknown(operator.spec) and all(problem.path != "spec" for problem in wrong):
        # else it is not known what the form is made of
        problems += _wrong_form(operator, text if isinstance(text, str) and not is_file_name(text) else None)
    if problems:
        raise SpecError(problems, source=f"task {operator.task_id!r}")


def _wrong_form(operator: SiflowTaskOperator, text: str | None) -> Iterator[Problem]:
    try:
        document = _spec_document(operator)
    except SpecError as error:
        yield from under("spec", error)
        return
    form, catalog = _parsed_form(operator, document), None
    try:
        catalog = find_catalog(_own_catalog(operator), lambda: None)  # one that a connection holds is not known yet
    except SpecError as error:
        yield from under("catalog", error)
    kind, jinja = operator.model.__name__, jinja_of(operator.get_dag())
    yield from check(form, catalog=catalog, templates=True, kind=kind, line_source=text or document, jinja=jinja).errors


def under(keyword: str, error: SpecError) -> Iterator[Problem]:
    """Yield the problems of what a keyword names, as problems of that keyword."""
    for problem in error.problems:
        inside = f"{problem.path}: " if problem.path else ""
        yield replace(problem, path=keyword, message=f"{inside}{problem.message}")


def spec_fields(operator: SiflowTaskOperator) -> frozenset[str]:
    """Return the fields that the operator's spec gives, where it is known what the spec is.

    Raises:
        SpecError: the spec can't be read.
    """
    document = None if is_unknown(operator.spec) else _spec_document(operator)
    return frozenset() if document is None else frozenset(map(str, as_mapping(document.data, what="spec")))


def form_at_parse(operator: SiflowTaskOperator) -> dict[str, Any]:
    """Return the operator's whole form as the DAG file gives it, templates as they stand."""
    return _parsed_form(operator, _spec_document(operator))


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
    user = settings.login or operator.owner
    task, warnings = _resolved(operator, raw, settings, user)
    hidden = [value.reveal() for value in task.hidden.values()]
    mask_now(hidden)
    store, veil = Store(context["ti"]), Veil.of(hidden)
    reporter = TaskReporter(operator.log, store, veil=veil)
    for warning in warnings:
        reporter.note(str(warning), warning=True)
    return Order(
        settings=settings,
        task=task,
        context=RenderContext(identity=identity_of(context["ti"]), user_name=user),
        policy=follow_policy(task, logs=_selection(operator.logs), deadline=carried.deadline),
        quota=operator.quota,
        on_kill_action=operator.on_kill_action,
        reporter=reporter,
        store=store,
        veil=veil,
    )


def _resolved(
    operator: SiflowTaskOperator, raw: dict[str, Any], settings: Settings, user: str
) -> tuple[ResolvedTask, tuple[Problem, ...]]:
    catalog = find_catalog(_own_catalog(operator), lambda: settings.catalog)
    checked = check(raw, catalog=catalog, kind=operator.model.__name__, rendered=True)
    errors = checked.errors
    if checked.task is not None:
        try:
            return resolve(
                checked.task, catalog, settings.defaults(timezone=timezone_of(operator)), user=user
            ), checked.warnings
        except SpecError as error:
            errors = error.problems
    raise SpecError(errors, source=f"task {operator.task_id!r}")


def _wrong_options(operator: SiflowTaskOperator) -> Iterator[Problem]:
    for name, choices in _CHOICES.items():
        value = getattr(operator, name)
        if value not in choices:
            yield Problem(name, f"{value!r} is none of {', '.join(choices)}")
    if isinstance(operator.logs, str) and operator.logs not in _LOGS:
        names = "or a list of replicas such as ['worker-1']"
        yield Problem("logs", f"{operator.logs!r} is none of {', '.join(_LOGS)}, {names}")


def _raw_form(operator: SiflowTaskOperator, spec: Mapping[str, Any]) -> dict[str, Any]:
    names = form_fields(operator.model)
    own = {name: unfold(value) for name in names if (value := getattr(operator, name)) is not None}
    return merge(operator.model.__name__, spec, own, weak=operator.weak_fields)


def _parsed_form(operator: SiflowTaskOperator, document: Document | None) -> dict[str, Any]:
    raw = _raw_form(operator, unfold(document.data) if document else {})
    return {name: unrendered(value) for name, value in raw.items()}


def rendered_form(operator: SiflowTaskOperator, context: Context) -> dict[str, Any]:
    """Return the whole raw form of a rendered operator: its spec and, above it, its own keywords."""
    document = _spec_document(operator)
    spec: Any = {}
    if document is not None:
        # a file's content is rendered here; a mapping's has been, like every template field
        spec = operator.render_template(hide(document.data), context) if document.root is not None else document.data
    return _raw_form(operator, unfold(spec))


def _spec_document(operator: SiflowTaskOperator) -> Document | None:
    spec = operator.spec
    if spec is None:
        return None
    if isinstance(spec, (str, Path)):
        return read_document(dag_path(operator, spec))
    if isinstance(spec, BaseModel):
        return Document(to_fields(spec))
    return Document(as_mapping(spec, what="spec"))


def _own_catalog(operator: SiflowTaskOperator) -> Path | None:
    return None if operator.catalog is None else dag_path(operator, operator.catalog)


def dag_path(operator: BaseOperator, path: str | Path) -> Path:
    """Return where a file is that an operator or sensor names: a relative path starts at the DAG file's folder."""
    dag = operator.get_dag()
    return spec_path(path, dag.fileloc if dag is not None else "")


def _selection(logs: Any) -> Any:
    return logs if isinstance(logs, str) else tuple(logs)


def timezone_of(operator: BaseOperator) -> str | None:
    """Return the IANA name of the DAG's time zone; None where it has none."""
    zone = operator.dag.timezone
    name = str(getattr(zone, "key", None) or getattr(zone, "name", ""))
    return name if name in available_timezones() else None
