"""The form, top level: `PyTorchJob` and `RayJob` (task form, sections 1 to 5)."""

from __future__ import annotations

from typing import Literal

from siflow_provider.spec.base import Form
from siflow_provider.spec.compute import Compute
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import Alert, FaultTolerance, KubernetesOptions, Monitoring
from siflow_provider.spec.ray import RaySection
from siflow_provider.spec.storage import DatasetMount, ModelMount, VolumeMount

__all__ = ["CatalogImage", "PyTorchJob", "RayJob", "Task"]


class CatalogImage(Form):
    """An image of the catalog: exactly one of `preset` and `custom`, and its version."""

    preset: str | None = None
    custom: str | None = None
    version: str


class _Task(Form):
    region: str | None = None
    cluster: str | None = None
    project_group: str | None = None
    name_prefix: str | None = None
    visible_in_group: bool = False
    timezone: str | None = None
    labels: dict[str, str] = {}

    image: str | CatalogImage
    env: dict[str, str | Hidden] = {}
    volumes: tuple[VolumeMount, ...] = ()
    datasets: tuple[DatasetMount, ...] = ()
    models: tuple[ModelMount, ...] = ()
    command: str
    shm_size: str | None = None

    compute: Compute
    workers: int = 0
    priority: Literal["high", "medium", "low"] = "medium"

    queue_timeout: float | None = None
    start_timeout: float | None = None
    fault_tolerance: FaultTolerance | None = None
    monitoring: Monitoring | None = None
    image_pull_retries: int | None = None
    ssh: bool = False
    alerts: tuple[Alert, ...] = ()
    kubernetes: KubernetesOptions = KubernetesOptions()


class PyTorchJob(_Task):
    """A gang of one master and `workers` workers that meet by torch's rendezvous."""

    kind: Literal["PyTorchJob"] = "PyTorchJob"


class RayJob(_Task):
    """A Ray cluster of one head and `workers` workers, and one command run on it."""

    kind: Literal["RayJob"] = "RayJob"
    ray: RaySection = RaySection()


Task = PyTorchJob | RayJob
