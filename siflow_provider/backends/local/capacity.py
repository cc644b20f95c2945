"""What this machine has, and what an admin says it may give (`capacity.json` in the state directory)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from siflow_provider.backends.local.store import StateDir, read_json
from siflow_provider.errors import UsageError
from siflow_provider.spec.quantity import Resources, parse_quantity

__all__ = ["Amounts", "machine"]

_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
_NVIDIA = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Cores, bytes and GPUs; cores in thousandths, so that sums are exact."""

    millicores: int = 0
    memory: int = 0
    gpus: int = 0

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> Amounts:
        """Read amounts as the document writes them; every kind of accelerator counts as a GPU."""
        resources = Resources.of(raw)
        return cls(round(resources.cpu * 1000), resources.memory, round(resources.gpus))

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.millicores + other.millicores, self.memory + other.memory, self.gpus + other.gpus)

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.millicores - other.millicores, self.memory - other.memory, self.gpus - other.gpus)

    def fits(self, room: Amounts) -> bool:
        """Say whether this much fits into `room`."""
        return self.millicores <= room.millicores and self.memory <= room.memory and self.gpus <= room.gpus

    def times(self, room: Amounts) -> int:
        """Return how many of this size fit into `room`."""
        pairs = (
            (self.millicores, room.millicores),
            (self.memory, room.memory),
            (self.gpus, room.gpus),
        )
        return max(0, min((have // need for need, have in pairs if need), default=0))

    def rows(self) -> tuple[tuple[str, float, str], ...]:
        """Return (resource, amount, unit) of each kind."""
        return (
            ("cpu", self.millicores / 1000, "cores"),
            ("memory", float(self.memory), "bytes"),
            ("gpu", float(self.gpus), "GPUs"),
        )


def machine(state: StateDir) -> Amounts:
    """Return what all runs together may hold: `capacity.json` where it says something, else what the machine has.

    Raises:
        UsageError: `capacity.json` holds something else.
    """
    path = state.path / "capacity.json"
    if not path.exists():
        return _measured()
    return _overridden(_measured(), read_json(path), path)


def _measured() -> Amounts:
    memory = psutil.virtual_memory().total
    try:
        limit = _CGROUP_MEMORY.read_text().strip()
    except OSError:
        limit = "max"
    if limit.isdigit():
        memory = min(memory, int(limit))
    gpus = len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0
    return Amounts(len(os.sched_getaffinity(0)) * 1000, memory, gpus)


def _overridden(measured: Amounts, raw: Any, path: Path) -> Amounts:
    if not isinstance(raw, dict) or not raw.keys() <= {"cpu", "memory", "gpus"}:
        raise UsageError(
            f"{path} must be a mapping with the keys cpu, memory and gpus, each of them optional.",
            hint='Write it like this: {"cpu": 4, "memory": "8Gi", "gpus": 0}.',
        )
    try:
        given = {name: parse_quantity(value) for name, value in raw.items()}
    except ValueError as error:
        raise UsageError(f"{path}: {error}.") from error
    return Amounts(
        round(given["cpu"] * 1000) if "cpu" in given else measured.millicores,
        int(given.get("memory", measured.memory)),
        int(given.get("gpus", measured.gpus)),
    )
