"""What a `QuotaSensor` is asked about -> a resolved task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk import XComArg

from siflow_provider.errors import SpecError
from siflow_provider.operators.form import PLACEHOLDER, unrendered
from siflow_provider.operators.order import rendered_form
from siflow_provider.operators.source import rendered_content, resolved_form, under, wrong_form
from siflow_provider.operators.task import SiflowTaskOperator
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.task import PyTorchJob, RayJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.errors import Problem
    from siflow_provider.sensors.quota import QuotaSensor
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
    except SpecError as error:
        errors += under("task", error)
    else:
        if not isinstance(sensor.task, SiflowTaskOperator) and not is_unknown(sensor.task):
            errors += wrong_form(sensor, "task", sensor.catalog_source(), text=text)
    if errors:
        raise SpecError(errors, source=f"the task of {sensor.task_id!r}")


def resolved_task(sensor: QuotaSensor, context: Context, settings: Settings) -> ResolvedTask:
    """Return the sensor's rendered task, validated in full, with its names looked up.

    Raises:
        SpecError: the form, or what it names, is wrong; every problem at once.
    """
    source = f"the task of {sensor.task_id!r}"
    return resolved_form(sensor, _form(sensor, context), settings, sensor.catalog_source(), source=source)[0]


def _form(sensor: QuotaSensor, context: Context) -> Any:
    task = sensor.task
    if not isinstance(task, SiflowTaskOperator):
        return rendered_content(sensor, task, context, what="task")
    form = {name: unrendered(value) for name, value in rendered_form(task, context).items()}
    # what a decorated task's function returns decides nothing here, and asking it would run the user's code
    return {**form, "command": "known at run time"} if form.get("command") == PLACEHOLDER else form
