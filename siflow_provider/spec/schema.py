"""The form's JSON Schema, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from siflow_provider.spec.task import PyTorchJob, RayJob

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """Return the schema of a form: both kinds, told apart by `kind`."""
    return TypeAdapter(PyTorchJob | RayJob).json_schema()
