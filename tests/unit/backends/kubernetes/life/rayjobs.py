"""A RayJob with storage that its pods share."""

from __future__ import annotations

from typing import Any

from siflow_provider.spec.resolve import Mount
from siflow_provider.spec.task import RayJob
from tests.unit.backends.kubernetes.tasks import job, rendered

_COMPUTE = {"type": "on_demand", "instances": [{"cpu": "1", "memory": "1Gi"}]}


def shared_job(*, clean_up: bool = True, keep: str | None = None, attempt: int = 1, **form: Any) -> dict[str, Any]:
    """Return the job as the API server keeps it."""
    ray: dict[str, Any] = {"shared_storage": {"volume": "pvc:scratch", "clean_up": clean_up}}
    if keep is not None:
        ray["debug"] = {"keep_seconds": keep}
    raw = {"image": "registry.example/ray:2", "command": "true", "workers": 1, "compute": _COMPUTE, "ray": ray, **form}
    mount = Mount("shared_storage", "scratch", "/tmp/ray", pvc="scratch", sub_path="team")
    made: dict[str, Any] = job(rendered(RayJob.model_validate(raw), mounts=(mount,), attempt=attempt))
    return {**made, "metadata": {"namespace": "ml", **made["metadata"]}}
