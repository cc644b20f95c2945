"""A container's resources as an instance in place: one amount each, since a replica of the form asks for its limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from siflow_provider.backends.kubernetes.amounts import half_memory
from siflow_provider.backends.kubernetes.importing_parts import Notes, Part, Placeholder
from siflow_provider.spec.base import is_template
from siflow_provider.spec.lookup_compute import GPU_RESOURCE
from siflow_provider.spec.quantity import Resources, parse_quantity

__all__ = ["Size", "read_size"]

_UNITS = re.compile(r"(.+) x (\{\{.*\}\})")
"""What `render` writes for units that are still a template."""


@dataclass(frozen=True, slots=True)
class Size:
    """The amounts of one container.

    Attributes:
        path: where they stand.
        amounts: resource name -> text, those of the form only.
        units: a template that multiplies them; None for amounts that are whole.
    """

    path: str
    amounts: dict[str, str]
    units: str | None = None

    @property
    def half_memory(self) -> str | None:
        """What a replica gets as shared memory where its form says nothing."""
        memory = self.amounts.get("memory")
        if memory is None or is_template(memory):
            return None
        return half_memory(Resources.of({"memory": memory}), self.units or 1)

    def same(self, other: Size) -> bool:
        """Say whether two roles ask for the same."""
        return (self.amounts, self.units) == (other.amounts, other.units)

    def instance(self, notes: Notes, role: str = "") -> dict[str, Any]:
        """Return the instance in place; what the manifest leaves open stays open, as a template."""
        out: dict[str, Any] = {}
        for name in ("cpu", "memory"):
            out[name] = self.amounts.get(name) or Placeholder(f"{{{{ params.{role}{name} }}}}")
            if name not in self.amounts:
                why = f"it is not said, and the form asks for it: write it in place of {out[name]}"
                notes.say(f"{self.path}.limits.{name}", why)
        if GPU_RESOURCE in self.amounts:
            gpu = self.amounts[GPU_RESOURCE]
            out["gpu"] = int(gpu) if gpu.isdigit() else gpu
        return out


def read_size(part: Part) -> Size:
    """Return the amounts of a container: its limits, and where it has none its requests."""
    limits, requests = part.texts("limits"), part.texts("requests")
    part.finish()
    amounts, units = {}, None
    for name in dict.fromkeys([*limits, *requests]):
        kind = "limits" if name in limits else "requests"
        path = f"{part.path}.{kind}.{name}"
        text = limits.get(name) or requests[name]
        if name not in ("cpu", "memory", GPU_RESOURCE):
            part.notes.say(path, f"an instance in place has cpu, memory and {GPU_RESOURCE}; a catalog's may have more")
            continue
        found = _UNITS.fullmatch(text)
        if found is not None:
            text, units = found[1], found[2]
        if not is_template(text) and not _is_quantity(text):
            part.notes.say(path, f"{text!r} is no amount")
            continue
        amounts[name] = text
        _compare(part, name, limits.get(name), requests.get(name))
    return Size(part.path, amounts, units)


def _compare(part: Part, name: str, limit: str | None, request: str | None) -> None:
    path = f"{part.path}.requests.{name}"
    if limit is None:
        part.notes.say(path, f"{request} is the limit too: the form has one amount for both")
    elif request is not None and request != limit:
        part.notes.say(path, f"{request} is less than the limit: the form has one amount for both, and takes {limit}")


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True
