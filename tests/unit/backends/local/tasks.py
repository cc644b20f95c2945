"""Resolved tasks for the tests of the embedded backend, made without a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.compute import InPlaceInstance, OnDemand
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import PyTorchJob

__all__ = ["context", "task"]


def task(
    command: str,
    *,
    workers: int = 0,
    cpu: str = "100m",
    memory: str = "16Mi",
    env: Mapping[str, str] | None = None,
    hidden: Mapping[str, str] | None = None,
    mounts: tuple[Mount, ...] = (),
    **fields: Any,
) -> ResolvedTask:
    """Return a PyTorchJob of small replicas that run `command`."""
    compute = OnDemand(type="on_demand", instances=(InPlaceInstance(cpu=cpu, memory=memory),))
    form = PyTorchJob(
        image="registry.example/ai/pytorch:1", command=command, workers=workers, **{"compute": compute, **fields}
    )
    flavor = Flavor(instance="in-place", resources=Resources.of({"cpu": cpu, "memory": memory}))
    return ResolvedTask(
        task=form,
        image="registry.example/ai/pytorch:1",
        env=dict(env or {}),
        hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
        flavors=(flavor,),
        mounts=mounts,
        labels=form.labels,
    )


def context(identity: Identity | None = None) -> RenderContext:
    """Return a context for `identity`, else for a run that nobody else has."""
    return RenderContext(identity=identity or Identity.random(), user_name="ada")
