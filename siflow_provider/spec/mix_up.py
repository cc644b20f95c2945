"""Another document than the one that is wanted, such as a catalog for a task: one sentence, no complaint a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.catalog_model import Catalog
from siflow_provider.spec.task import PyTorchJob, RayJob

__all__ = ["refuse_other", "refuse_task"]

_OF_TASKS = frozenset({*PyTorchJob.model_fields, *RayJob.model_fields})
_OF_CATALOGS = frozenset(Catalog.model_fields)


def refuse_other(data: Mapping[Any, Any]) -> None:
    """Refuse a document that should be a task and has keys of a catalog only, or is a manifest of Kubernetes.

    Raises:
        SpecError: it has, or is.
    """
    if "apiVersion" in data:
        message = "this is a Kubernetes manifest and no task; `siflow-provider import` makes a task of one"
        raise SpecError([Problem("", message)])
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
