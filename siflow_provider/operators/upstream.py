"""Which tasks come first: those whose output stands inside a hidden value or a model, where Airflow does not look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions._internal.abstractoperator import AbstractOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.definitions.xcom_arg import XComArg
from pydantic import BaseModel

from siflow_provider.spec.hidden import Hidden

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

__all__ = ["come_after"]


def come_after(task: BaseOperator | MappedOperator) -> None:
    """Set the task behind each whose output a hidden value or a model of its arguments holds, at any depth.

    Airflow looks into lists and mappings only (source: task-sdk 1.3.2 `definitions/xcom_arg.py`,
    iter_xcom_references), so without this the task would run before the output is there.
    """
    if isinstance(task, MappedOperator):
        given: Any = [task.partial_kwargs.get(name) for name in task.template_fields]
        given.append(task._get_specified_expand_input().value)
    else:
        given = task
    for value in _covered(given):
        XComArg.apply_upstream_relationship(task, value)


def _covered(value: Any) -> Iterator[Any]:
    """Yield what stands right inside of each hidden value and model."""
    if isinstance(value, Hidden):
        yield value.value
        return
    parts = _parts(value)
    if isinstance(value, BaseModel):
        yield from parts
    for part in parts:
        yield from _covered(part)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, BaseModel):
        return [getattr(value, name) for name in value.model_fields_set]
    if isinstance(value, AbstractOperator):
        return [getattr(value, name, None) for name in value.template_fields]
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []
