"""Amounts as Kueue and the scheduler count them: whole numbers, cores in thousandths.

source: Kueue v0.17.0 pkg/resources/requests.go, ResourceValue; Kubernetes component-helpers/resource, PodRequests
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from siflow_provider.core.quota import Shortage
from siflow_provider.spec.quantity import format_quantity, parse_quantity

__all__ = ["Amounts", "add", "pod_amounts", "read_amount", "read_amounts", "shortage", "shown", "times"]

Amounts = Mapping[str, int]
"""Resource -> amount; `cpu` in thousandths of a core, all else in whole pieces or bytes."""

_BYTES = ("memory", "storage")
_POD_LEVEL = ("cpu", "memory")


def read_amount(resource: str, quantity: str | float) -> int:
    """Return a quantity of an API object as Kueue counts it, rounded up.

    Raises:
        ValueError: it is no quantity.

    Example:
        >>> read_amount("cpu", "1500m"), read_amount("memory", "1Ki"), read_amount("nvidia.com/gpu", 2)
        (1500, 1024, 2)
    """
    text = str(quantity).strip()
    sign = -1 if text.startswith("-") else 1
    value = parse_quantity(text.lstrip("+-"))
    scaled = value * 1000 if resource == "cpu" else value
    return sign * int(scaled.to_integral_value(rounding=ROUND_CEILING))


def read_amounts(quantities: Mapping[str, str | float] | None) -> dict[str, int]:
    """Return the amounts of a resource list; none for a list that is left out."""
    return {name: read_amount(name, text) for name, text in (quantities or {}).items()}


def add(*parts: Amounts) -> dict[str, int]:
    """Return the sum, resource by resource."""
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def times(amounts: Amounts, count: int) -> dict[str, int]:
    """Return the amounts of `count` equal pods."""
    return {name: value * count for name, value in amounts.items()}


def pod_amounts(spec: Mapping[str, Any], side: str = "requests") -> dict[str, int]:
    """Return what one pod asks for: its containers together, or one init container where that is more.

    Args:
        spec: the pod's `spec`.
        side: `requests` (a limit stands for a request that is left out) or `limits`.
    """
    always: dict[str, int] = {}
    first: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _container(container, side)
        if container.get("restartPolicy") == "Always":
            always = add(always, asked)
            first = _most(first, always)
        else:
            first = _most(first, add(always, asked))
    main = add(always, *(_container(container, side) for container in spec.get("containers") or ()))
    whole = _most(main, first) | _own(spec, side)
    return add(whole, read_amounts(spec.get("overhead")))


def _container(container: Mapping[str, Any], side: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    limits = read_amounts(resources.get("limits"))
    return limits if side == "limits" else limits | read_amounts(resources.get("requests"))


def _own(spec: Mapping[str, Any], side: str) -> dict[str, int]:
    """Return what the pod as a whole says of itself, which wins over its containers."""
    own = _container(spec, side)
    return {name: value for name, value in own.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def _most(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}


def shortage(resource: str, need: int, have: int, where: str) -> Shortage:
    """Return one number that is short, in the units that people read."""
    scale, unit = _unit(resource)
    return Shortage(resource, need / scale, max(0, have) / scale, unit, where)


def shown(amounts: Amounts, resources: Iterable[str] | None = None) -> str:
    """Return amounts for a sentence: `cpu 3.5, memory 16Gi, nvidia.com/gpu 8`."""
    names = sorted(amounts) if resources is None else list(resources)
    return ", ".join(f"{name} {_text(name, max(0, amounts.get(name, 0)))}" for name in names)


def _text(resource: str, value: int) -> str:
    scale, unit = _unit(resource)
    return format_quantity(Decimal(value)) if unit == "bytes" else f"{value / scale:g}"


def _unit(resource: str) -> tuple[int, str]:
    if resource == "cpu":
        return 1000, "cores"
    if resource.endswith(_BYTES) or resource.startswith("hugepages-"):
        return 1, "bytes"
    return 1, "GPUs" if resource.endswith("/gpu") else "pieces"
