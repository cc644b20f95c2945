"""The section that only a RayJob has (task form, section 5)."""

from __future__ import annotations

from typing import Any, Literal

from siflow_provider.spec.base import Form
from siflow_provider.spec.compute import Instance

__all__ = ["Autoscaling", "Debug", "Head", "RaySection", "SharedStorage"]


class Head(Form):
    """The head's own size."""

    instance: Instance
    units: int = 1


class SharedStorage(Form):
    """A volume that many pods can write; this task's own sub path of it stands at `/tmp/ray`."""

    volume: str
    clean_up: bool = False


class Debug(Form):
    """Keep the Ray cluster after the end."""

    keep_seconds: float = 600.0


class Autoscaling(Form):
    """Bounds of the worker group; min_workers <= workers <= max_workers. `idle_timeout` in seconds."""

    min_workers: int
    max_workers: int
    idle_timeout: float = 60.0
    upscaling_mode: Literal["default", "conservative", "aggressive"] = "default"


class RaySection(Form):
    """`ray:` of a RayJob."""

    head: Head | None = None
    runtime_env: dict[str, Any] | None = None
    shared_storage: SharedStorage | None = None
    debug: Debug | None = None
    autoscaling: Autoscaling | None = None
