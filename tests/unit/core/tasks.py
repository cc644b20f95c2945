"""Resolved tasks made by hand, so that tests of the core need no catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob

IDENTITY = Identity(dag_id="daily", task_id="train", run_id="scheduled__2026-01-01T00:00:00+00:00")
COMPUTE = {"type": "on_demand", "instances": [{"cpu": "1", "memory": "1Gi"}]}


def make_task(
    *,
    kind: type[PyTorchJob] | type[RayJob] = PyTorchJob,
    env: Mapping[str, str] | None = None,
    hidden: Mapping[str, Hidden] | None = None,
    flavors: tuple[str, ...] = ("in-place",),
    channels: Mapping[str, str] | None = None,
    org: str = "",
    tenant: str = "",
    **form: Any,
) -> ResolvedTask:
    """Return a resolved task with one core and 1 GiB a replica; `form` are fields of the form."""
    raw = {"image": "busybox:1", "command": "true", "compute": COMPUTE, **form}
    return ResolvedTask(
        task=kind.model_validate(raw),
        image="busybox:1",
        env=env or {},
        hidden=hidden or {},
        flavors=tuple(
            Flavor(instance=name, resources=Resources.of({"cpu": 1, "memory": "1Gi"}), queue="main") for name in flavors
        ),
        channels=channels or {},
        org=org,
        tenant=tenant,
    )


def context(attempt: int = 1) -> RenderContext:
    """Return the context of one attempt of the same task-instance try."""
    return RenderContext(identity=IDENTITY.for_attempt(attempt), user_name="mia")
