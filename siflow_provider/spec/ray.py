"""The section that only a RayJob has (docs/reference/form.md, RayJob only)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from siflow_provider.spec.base import Form
from siflow_provider.spec.compute import Instance
from siflow_provider.spec.containers import STRUCTURE
from siflow_provider.spec.runtime_env import parse_runtime_env
from siflow_provider.spec.scalars import Count, Filled, Flag, NonNegativeSeconds, Positive, choice

__all__ = ["Autoscaling", "Debug", "Head", "RaySection", "SharedStorage"]


class Head(Form):
    """The head's own size."""

    instance: Instance
    """The instance, by its catalog name or in place."""
    units: Positive = 1
    """How many instances' worth of resources the head gets."""


class SharedStorage(Form):
    """A volume that many pods can write; this task's own sub path of it stands at `/tmp/ray`."""

    volume: Filled
    """The volume's name in the catalog, or `pvc:NAME`."""
    clean_up: Flag = False
    """Remove this task's data after the last attempt, whatever the end was."""


class Debug(Form):
    """Keep the Ray cluster after the end."""

    keep_seconds: NonNegativeSeconds = 600.0
    """How long."""


Upscaling = Annotated[Literal["default", "conservative", "aggressive"], choice("default", "conservative", "aggressive")]


class Autoscaling(Form):
    """Bounds of the worker group; min_workers <= workers <= max_workers. `idle_timeout` in seconds."""

    min_workers: Count
    """Workers at least; they start with the task."""
    max_workers: Count
    """Workers at most."""
    idle_timeout: NonNegativeSeconds = 60.0
    """How long a worker may be idle before it is removed."""
    upscaling_mode: Upscaling = "default"
    """How fast workers are added."""


RuntimeEnv = Annotated[
    dict[str, Any],
    BeforeValidator(parse_runtime_env),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
]


class RaySection(Form):
    """`ray:` of a RayJob."""

    head: Annotated[Head, STRUCTURE] | None = None
    """The head's own size; left out: the workers' instance."""
    runtime_env: RuntimeEnv | None = None
    """Ray's runtime environment, in Ray's own format: YAML text or a mapping."""
    shared_storage: Annotated[SharedStorage, STRUCTURE] | None = None
    """A volume at /tmp/ray of every pod."""
    debug: Annotated[Debug, STRUCTURE] | None = None
    """Keep the Ray cluster after the end."""
    autoscaling: Annotated[Autoscaling, STRUCTURE] | None = None
    """Bounds of the worker group."""
