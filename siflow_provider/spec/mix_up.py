"""A catalog where a task is wanted, or a task where a catalog is: one sentence instead of a complaint for each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.catalog_model import Catalog
from siflow_provider.spec.task import PyTorchJob, RayJob

__all__ = ["refuse_catalog", "refuse_task"]

_OF_TASKS = frozenset({*PyTorchJob.model_fields, *RayJob.model_fields})
_OF_CATALOGS = frozenset(Catalog.model_fields)


def refuse_catalog(data: Mapping[Any, Any]) -> None:
    """Refuse a document that should be a task and has keys of a catalog only.

    Raises:
        SpecError: it has.
    """
    if _has_only(data, _OF_CATALOGS, _OF_TASKS):
        raise SpecError([Problem("", "this is a catalog and no task; check it with `siflow-provider catalog check`")])


def refuse_task(data: Mapping[Any, Any], *, source: str) -> None:
    """Refuse a document that should be a catalog and has keys of a task only.

    Raises:
        SpecError: it has; `source` is what its message calls the document.
    """
    if _has_only(data, _OF_TASKS, _OF_CATALOGS):
        message = "this is a task and no catalog; check it with `siflow-provider check`"
        raise SpecError([Problem("", message)], source=source)


def _has_only(data: Mapping[Any, Any], these: frozenset[str], others: frozenset[str]) -> bool:
    return bool(data.keys() & (these - others)) and not data.keys() & (others - these)
