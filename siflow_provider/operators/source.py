"""The one way from what a user gives as a task to a resolved one; operators and sensors both go it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from siflow_provider.errors import Problem, SpecError
from siflow_provider.hooks.siflow import find_catalog
from siflow_provider.operators.form import hide, unfold
from siflow_provider.operators.templates import jinja_of
from siflow_provider.spec.document import Document, as_mapping, is_file_name, read_document
from siflow_provider.spec.paths import expanded
from siflow_provider.spec.reading import check
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.task import PyTorchJob, RayJob
from siflow_provider.spec.writing import to_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import BaseOperator, Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["dag_path", "document_of", "rendered_content", "resolved_form", "under", "user_of", "wrong_form"]


def dag_path(owner: BaseOperator, path: str | Path) -> Path:
    """Return where a file is that an operator or sensor names: a relative path starts at the DAG file's folder."""
    dag, named = owner.get_dag(), expanded(path)
    return named if named.is_absolute() else Path(dag.fileloc if dag is not None else "").parent / named


def document_of(owner: BaseOperator, given: Any, *, what: str) -> Document:
    """Return the content of a file, of YAML text, of a mapping or of a model; nothing given is an empty form.

    Args:
        owner: the operator or sensor that it is given to.
        given: as it was given, or rendered.
        what: the keyword, for messages.

    Raises:
        SpecError: it can't be read, or is no mapping.
    """
    if given is None:
        return Document({})
    if isinstance(given, PyTorchJob | RayJob):
        return Document(to_fields(given))
    if isinstance(given, Path) or (isinstance(given, str) and is_file_name(given)):
        return read_document(dag_path(owner, given))
    return read_document(given) if isinstance(given, str) else Document(as_mapping(given, what=what))


def rendered_content(owner: BaseOperator, given: Any, context: Context, *, what: str) -> Any:
    """Return the same, rendered, as mappings, lists and scalars.

    Raises:
        SpecError: it can't be read, or is no mapping.
    """
    document = document_of(owner, given, what=what)
    if document.root is None:
        return unfold(document.data)  # rendered like every template field
    return unfold(owner.render_template(hide(document.data), context))


def wrong_form(
    owner: BaseOperator,
    keyword: str,
    catalog: Path | None,
    *,
    text: Any,
    kind: str | None = None,
    complete: Callable[[Document], Any] = lambda document: unfold(document.data),
) -> Iterator[Problem]:
    """Yield all that is wrong with a form while the DAG file is read.

    Args:
        owner: the operator or sensor.
        keyword: its attribute that was given the form.
        catalog: the file that it names; one that a connection holds is not known yet.
        text: what the attribute was made of, for lines and columns where it was YAML text.
        kind: what a form without `kind` is.
        complete: makes the whole form of what the attribute holds.
    """
    try:
        document = document_of(owner, getattr(owner, keyword), what=keyword)
    except SpecError as error:
        yield from under(keyword, error)
        return
    names = None
    try:
        names = find_catalog(catalog, lambda: None)
    except SpecError as error:
        yield from under("catalog", error)
    lines = text if isinstance(text, str) and not is_file_name(text) else document
    jinja = jinja_of(owner.get_dag())
    yield from check(
        complete(document), catalog=names, templates=True, kind=kind, line_source=lines, jinja=jinja
    ).errors


def under(keyword: str, error: SpecError) -> Iterator[Problem]:
    """Yield the problems of what a keyword names, as problems of that keyword."""
    for problem in error.problems:
        inside = f"{problem.path}: " if problem.path else ""
        yield replace(problem, path=keyword, message=f"{inside}{problem.message}")


def resolved_form(
    owner: BaseOperator, form: Any, settings: Settings, catalog: Path | None, *, source: str, kind: str | None = None
) -> tuple[ResolvedTask, tuple[Problem, ...]]:
    """Return a rendered form, validated in full and with its names looked up, and what is doubtful about it.

    Args:
        owner: the operator or sensor.
        form: the whole form.
        settings: the connection's.
        catalog: the file that the owner names; else the connection's or the configuration's counts.
        source: what a message calls the form.
        kind: what a form without `kind` is.

    Raises:
        SpecError: the form, or what it names, is wrong; every problem at once.
    """
    names = find_catalog(catalog, lambda: settings.catalog)
    checked = check(form, catalog=names, kind=kind, rendered=True)
    if checked.task is None:
        raise SpecError(checked.errors, source=source)
    defaults = settings.defaults(timezone=_timezone_of(owner))
    try:
        return resolve(checked.task, names, defaults, user=user_of(owner, settings)), checked.warnings
    except SpecError as error:
        raise SpecError(error.problems, source=source) from None


def user_of(owner: BaseOperator, settings: Settings) -> str:
    """Return `X_USER_NAME`: the connection's login, else the task's owner."""
    return settings.login or owner.owner


def _timezone_of(owner: BaseOperator) -> str | None:
    """Return the IANA name of the DAG's time zone; None where it has none."""
    zone = owner.dag.timezone
    name = str(getattr(zone, "key", None) or getattr(zone, "name", ""))
    return name if name in available_timezones() else None
