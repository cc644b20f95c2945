"""Amounts of a replica as a manifest writes them, also where the form holds a template instead of a number.

Nobody can multiply by a template, so such an amount becomes readable text: `96 x {{ params.units }}`. That is for the
eyes of `render FILE` only; everything that submits works on a rendered task, which holds no template.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from siflow_provider.spec.base import is_template
from siflow_provider.spec.quantity import format_quantity

if TYPE_CHECKING:
    from siflow_provider.spec.quantity import Resources

__all__ = ["amounts", "half_memory", "slots", "whole"]


def amounts(resources: Resources, units: int | str) -> dict[str, str]:
    """Return the amounts of one replica by resource name; `units` is looked at only when it is a template."""
    suffix = f" x {units}" if is_template(units) else ""
    return {name: f"{text}{suffix}" for name, text in resources.rendered().items()}


def half_memory(resources: Resources, units: int | str) -> str | None:
    """Return half of a replica's memory, whole bytes; None when it has no memory of its own."""
    memory = resources.amounts.get("memory")
    if memory is None:
        return None
    half = format_quantity(Decimal(int(memory) // 2))
    return f"{half} x {units}" if is_template(units) else half


def slots(resources: Resources) -> int:
    """Return how many processes a replica takes, for a hostfile: one a GPU, else one a core, never none."""
    return max(1, int(resources.gpus or resources.cpu))


def whole(value: Any) -> Any:
    """Return seconds as Kubernetes takes them, rounded up; a template stays as it is."""
    return value if is_template(value) else math.ceil(value)
