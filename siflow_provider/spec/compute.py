"""What a replica runs on: resource type, instances, units (task form, section 3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from siflow_provider.spec.base import Form

__all__ = ["Compute", "Idle", "InPlaceInstance", "Instance", "NodeRule", "OnDemand", "Reserved", "Spot"]

Stability = Literal["high", "medium", "low"]


class InPlaceInstance(Form):
    """An instance written in the form itself, for clusters without a catalog: `{cpu: 4, memory: 16Gi, gpu: 1}`."""

    cpu: str
    memory: str
    gpu: int | None = None


Instance = str | InPlaceInstance
"""A catalog name, or amounts in place."""


class NodeRule(Form):
    """Which nodes may be used, by name."""

    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class _Compute(Form):
    units_per_replica: int = 1
    nodes: NodeRule | None = None


class Reserved(_Compute):
    """Capacity that the group owns: `shared` or a dedicated pool."""

    type: Literal["reserved"]
    pool: str
    instance: Instance
    accept_idle: bool = False
    prefer_idle: bool = False
    idle_stability: Stability | None = None

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The one instance, in the shape of the other types."""
        return (self.instance,)


class _Listed(_Compute):
    instances: tuple[Instance, ...]
    fallback_after: float = 600.0
    """Seconds in the queue after which another listed instance is tried."""


class OnDemand(_Listed):
    """Capacity paid by use; `instances` best first."""

    type: Literal["on_demand"]
    guarantee: bool = False


class Spot(_Listed):
    """Capacity that may be taken away; `instances` best first."""

    type: Literal["spot"]
    guarantee: bool = False


class Idle(_Listed):
    """What others leave unused."""

    type: Literal["idle"]
    stability: Stability


Compute = Annotated[Reserved | OnDemand | Spot | Idle, Field(discriminator="type")]
