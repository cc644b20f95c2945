"""Amounts of a replica as a manifest writes them, also where the form holds a template instead of a number.

Nobody can multiply by a template, so such an amount becomes readable text: `96 x {{ params.units }}`. That is for the
eyes of `render FILE` only; everything that submits works on a rendered task, which holds no template.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from siflow_provider.spec.base import is_template
from siflow_provider.spec.compute import InPlaceInstance
from siflow_provider.spec.lookup_compute import GPU_RESOURCE
from siflow_provider.spec.quantity import format_quantity

if TYPE_CHECKING:
    from siflow_provider.spec.compute import Instance
    from siflow_provider.spec.quantity import Resources
    from siflow_provider.spec.resolve import Flavor

__all__ = ["amounts", "first_instance", "half_memory", "slots", "whole"]


def amounts(resources: Resources, units: int | str, instance: Instance) -> dict[str, str]:
    """Return the amounts of one replica by resource name.

    Args:
        resources: the amounts that are known, units already multiplied in unless they are a template.
        units: of the instance.
        instance: as the form names it; amounts in place that are templates are taken from it.
    """
    suffix = f" x {units}" if is_template(units) else ""
    known = {name: f"{text}{suffix}" for name, text in resources.rendered().items()}
    if not isinstance(instance, InPlaceInstance):
        return known
    written = {"cpu": instance.cpu, "memory": instance.memory, GPU_RESOURCE: instance.gpu}
    times = f" x {units}" if units != 1 else ""
    return known | {name: f"{value}{times}" for name, value in written.items() if is_template(value)}


def first_instance(compute: Any) -> Instance:
    """Return the instance that stands first; a compute whose type is a template may hold either field."""
    instances = compute.instances
    first: Instance = instances[0] if instances else compute.instance
    return first


def half_memory(resources: Resources, units: int | str) -> str | None:
    """Return half of a replica's memory, whole bytes; None when it has no memory of its own."""
    memory = resources.amounts.get("memory")
    if memory is None:
        return None
    half = format_quantity(Decimal(int(memory) // 2))
    return f"{half} x {units}" if is_template(units) else half


def slots(flavor: Flavor) -> int:
    """Return how many processes a replica takes, for a hostfile: one a GPU, else one a core, never none."""
    return max(1, int(flavor.gpus or flavor.resources.cpu))


def whole(value: Any) -> Any:
    """Return seconds as Kubernetes takes them, rounded up; a template stays as it is."""
    return value if is_template(value) else math.ceil(value)
