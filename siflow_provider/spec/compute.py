"""What a replica runs on: resource type, instances, units (docs/reference/form.md, Compute)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from siflow_provider.spec.base import ITEM, Form, is_unknown, plain_text
from siflow_provider.spec.containers import NAME_OR_MAPPING, STRUCTURE
from siflow_provider.spec.scalars import Count, Filled, Flag, Positive, PositiveSeconds, Quantity, choice
from siflow_provider.spec.wording import kind_of, nearest, none_of
from siflow_provider.spec.wrongs import Unknown, Wrong, Wrongs

__all__ = [
    "COMPUTE_TYPES",
    "Compute",
    "Idle",
    "InPlaceInstance",
    "Instance",
    "NodeRule",
    "OnDemand",
    "Reserved",
    "Spot",
    "Undecided",
]

COMPUTE_TYPES = ("reserved", "on_demand", "spot", "idle")
Stability = Annotated[Literal["high", "medium", "low"], choice("high", "medium", "low")]


class InPlaceInstance(Form):
    """An instance written in the form itself, for clusters without a catalog: `{cpu: 4, memory: 16Gi, gpu: 1}`."""

    cpu: Quantity
    """Cores, such as 4 or 500m."""
    memory: Quantity
    """Bytes, such as 16Gi."""
    gpu: Count | None = None
    """GPUs."""


def _instance_tag(value: Any) -> str:
    return "\0in-place" if isinstance(value, Mapping | InPlaceInstance) else "\0name"


def _instance_shape(value: Any) -> Any:
    if isinstance(value, str | Mapping):
        return value
    raise Wrong(f"must be a catalog name or amounts such as {{cpu: 4, memory: 16Gi, gpu: 1}}, not {kind_of(value)}")


Instance = Annotated[
    Annotated[Filled, Tag("\0name")] | Annotated[InPlaceInstance, Tag("\0in-place")],
    Discriminator(_instance_tag),
    BeforeValidator(_instance_shape),
    NAME_OR_MAPPING,
]
"""A catalog name, or amounts in place."""


class NodeRule(Form):
    """Which nodes may be used, by name."""

    only: Annotated[tuple[Annotated[Filled, ITEM], ...], STRUCTURE] = ()
    """The task runs on these nodes alone."""
    exclude: Annotated[tuple[Annotated[Filled, ITEM], ...], STRUCTURE] = ()
    """The task never runs on these nodes."""


class _Compute(Form):
    units_per_replica: Positive = 1
    """How many instances' worth of resources each replica gets."""
    nodes: Annotated[NodeRule, STRUCTURE] | None = None
    """Node scheduling rule."""


class Reserved(_Compute):
    """Capacity that the group owns: `shared` or a dedicated pool."""

    type: Literal["reserved"]
    pool: Filled
    """`shared`, or the name of a dedicated pool."""
    instance: Instance
    """The instance, by its catalog name or in place."""
    accept_idle: Flag = False
    """Also run on what others leave unused."""
    prefer_idle: Flag = False
    """Try idle capacity first; needs accept_idle."""
    idle_stability: Stability | None = None
    """How safe from preemption idle capacity must be; needs accept_idle."""

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The one instance, in the shape of the other types."""
        return (self.instance,)


class _Listed(_Compute):
    instances: Annotated[tuple[Annotated[Instance, ITEM], ...], STRUCTURE]
    """One or more instances, best first."""
    fallback_after: PositiveSeconds = 600.0
    """Time in the queue after which another listed instance is tried."""


class OnDemand(_Listed):
    """Capacity paid by use; `instances` best first."""

    type: Literal["on_demand"]
    guarantee: Flag = False
    """Ask for guaranteed capacity."""


class Spot(_Listed):
    """Capacity that may be taken away; `instances` best first."""

    type: Literal["spot"]
    guarantee: Flag = False
    """Ask for guaranteed capacity."""


class Idle(_Listed):
    """What others leave unused."""

    type: Literal["idle"]
    stability: Stability
    """How safe from preemption it must be."""


class Undecided(_Compute):
    """Compute whose `type` is a template: any type's fields, decided after rendering."""

    type: str
    pool: Filled | None = None
    instance: Instance | None = None
    accept_idle: Flag | None = None
    prefer_idle: Flag | None = None
    idle_stability: Stability | None = None
    instances: Annotated[tuple[Annotated[Instance, ITEM], ...], STRUCTURE] | None = None
    fallback_after: PositiveSeconds | None = None
    guarantee: Flag | None = None
    stability: Stability | None = None


def _compute_tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return f"\0{plain_text(kind)}" if isinstance(kind, str) and kind in COMPUTE_TYPES else "\0undecided"


def _compute_shape(value: Any) -> Any:
    example = "{type: on_demand, instances: [NAME], units_per_replica: 1}"
    if not isinstance(value, Mapping):
        raise Wrong(f"must be a mapping such as {example}, not {kind_of(value)}")
    kind = value.get("type")
    if is_unknown(kind) or (isinstance(kind, str) and kind in COMPUTE_TYPES):
        return value
    message = f"is required: one of {', '.join(COMPUTE_TYPES)}" if kind is None else none_of(kind, COMPUTE_TYPES)
    meant = nearest(kind, COMPUTE_TYPES) or Unknown()
    raise Wrongs([(".type", message)], kept={**value, "type": meant})


Compute = Annotated[
    Annotated[Reserved, Tag("\0reserved")]
    | Annotated[OnDemand, Tag("\0on_demand")]
    | Annotated[Spot, Tag("\0spot")]
    | Annotated[Idle, Tag("\0idle")]
    | Annotated[Undecided, Tag("\0undecided")],
    Discriminator(_compute_tag),
    BeforeValidator(_compute_shape),
    STRUCTURE,
]
