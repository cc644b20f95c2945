"""What a `QuotaSensor` is asked about -> a resolved task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk import XComArg
from pydantic import BaseModel

from siflow_provider.errors import SpecError
from siflow_provider.hooks.siflow import find_catalog
from siflow_provider.operators.form import PLACEHOLDER, hide, unfold, unrendered
from siflow_provider.operators.order import dag_path, rendered_form, timezone_of
from siflow_provider.operators.task import SiflowTaskOperator
from siflow_provider.operators.templates import jinja_of
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.document import is_file_name, read_document
from siflow_provider.spec.load import check
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.task import PyTorchJob, RayJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.errors import Problem
    from siflow_provider.sensors.quota import QuotaSensor
    from siflow_provider.spec.document import Document
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["TaskSource", "check_at_parse", "resolved_task"]

TaskSource: TypeAlias = str | Path | Mapping[str, Any] | PyTorchJob | RayJob | SiflowTaskOperator | XComArg
"""A task file (a relative path starts at the folder of the DAG file), YAML text, a form, or an operator."""


def check_at_parse(sensor: QuotaSensor, wrong: Iterable[Problem] = ()) -> None:
    """Check all of the form that is known while the DAG file is read; an operator has checked its own.

    Args:
        sensor: as its `__init__` made it.
        wrong: what was found wrong with its arguments before.

    Raises:
        SpecError: with every problem at once; Airflow shows it as the file's import error.
    """
    errors, text = [*wrong], sensor.task
    try:
        sensor.settle_form()
        if not isinstance(sensor.task, SiflowTaskOperator) and not is_unknown(sensor.task):
            errors += _wrong_form(sensor, text if isinstance(text, str) and not is_file_name(text) else None)
    except SpecError as error:
        errors += error.problems
    if errors:
        raise SpecError(errors, source=f"the task of {sensor.task_id!r}")


def _wrong_form(sensor: QuotaSensor, text: str | None) -> Iterable[Problem]:
    document = _document(sensor)
    form = unfold(document.data if document is not None else sensor.task)
    catalog = find_catalog(sensor.catalog_source(), lambda: None)
    jinja = jinja_of(sensor.get_dag())
    return check(form, catalog=catalog, templates=True, line_source=text or document, jinja=jinja).errors


def resolved_task(sensor: QuotaSensor, context: Context, settings: Settings) -> ResolvedTask:
    """Return the sensor's rendered task, validated in full, with its names looked up.

    Raises:
        SpecError: the form, or what it names, is wrong; every problem at once.
    """
    source = f"the task of {sensor.task_id!r}"
    catalog = find_catalog(sensor.catalog_source(), lambda: settings.catalog)
    checked = check(_form(sensor, context), catalog=catalog, rendered=True)
    if checked.task is None:
        raise SpecError(checked.errors, source=source)
    user = settings.login or sensor.owner
    try:
        return resolve(checked.task, catalog, settings.defaults(timezone=timezone_of(sensor)), user=user)
    except SpecError as error:
        raise SpecError(error.problems, source=source) from None


def _form(sensor: QuotaSensor, context: Context) -> Any:
    task = sensor.task
    if isinstance(task, SiflowTaskOperator):
        form = {name: unrendered(value) for name, value in rendered_form(task, context).items()}
        # what a decorated task's function returns decides nothing here, and asking it would run the user's code
        return {**form, "command": "known at run time"} if form.get("command") == PLACEHOLDER else form
    document = _document(sensor)
    if document is None:
        return unfold(task)
    rendered = sensor.render_template(hide(document.data), context) if document.root is not None else document.data
    return unfold(rendered)


def _document(sensor: QuotaSensor) -> Document | None:
    task = sensor.task
    if isinstance(task, BaseModel) or not isinstance(task, (str, Path)):
        return None
    if isinstance(task, str) and not is_file_name(task):
        return read_document(task)
    return read_document(dag_path(sensor, task))
