"""Fields of the form whose spelling in a create body no public source tells.

None of them is ever guessed: a task that uses one is refused, unless the connection's `body_overrides` spell it.
source: the vendor's Python SDK 0.2.9 and its public docs, which name these features and not their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siflow_provider.spec.compute import Idle, Reserved, Spot
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["UNSPELT", "Unspelt", "used"]


@dataclass(frozen=True, slots=True)
class Unspelt:
    """A field that needs a spelling.

    Attributes:
        path: the field's path, the key in `body_overrides`.
        value: its value in a task, JSON types only; None where the task does not use it.
        why: what is not known.
    """

    path: str
    value: Callable[[ResolvedTask], Any]
    why: str


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _form(name: str) -> Callable[[ResolvedTask], Any]:
    return lambda task: _plain(getattr(task.task, name)) or None


def _pulls(task: ResolvedTask) -> Any:
    return task.task.image_pull_retries  # 0 is a wish as well


def _compute(name: str) -> Callable[[ResolvedTask], Any]:
    return lambda task: _plain(getattr(task.task.compute, name, None)) or None


def _spot(task: ResolvedTask) -> Any:
    return "spot" if isinstance(task.task.compute, Spot) else None


def _stability(task: ResolvedTask) -> Any:
    return task.task.compute.stability if isinstance(task.task.compute, Idle) else None


def _idle_stability(task: ResolvedTask) -> Any:
    return task.task.compute.idle_stability if isinstance(task.task.compute, Reserved) else None


def _nodes(task: ResolvedTask) -> Any:
    rule = task.task.compute.nodes
    return _plain(rule) if rule is not None and (rule.only or rule.exclude) else None


def _kind(task: ResolvedTask) -> Any:
    return "RayJob" if isinstance(task.task, RayJob) else None


def _ray(name: str) -> Callable[[ResolvedTask], Any]:
    return lambda task: _plain(getattr(task.task.ray, name)) if isinstance(task.task, RayJob) else None


UNSPELT = (
    Unspelt("kind", _kind, "how the API spells a RayJob's type and head"),
    Unspelt("project_group", _form("project_group"), "how the API spells a project group; the access key decides it"),
    Unspelt("visible_in_group", _form("visible_in_group"), "how the API spells a task's visibility"),
    Unspelt("shm_size", _form("shm_size"), "whether the API takes a size of /dev/shm"),
    Unspelt("monitoring", _form("monitoring"), "how the API spells the metrics port"),
    Unspelt("image_pull_retries", _pulls, "how the API spells the threshold of failed image pulls"),
    Unspelt("ssh", _form("ssh"), "how the API spells SSH without keys"),
    Unspelt("compute.type", _spot, "how the API spells spot capacity"),
    Unspelt("compute.stability", _stability, "how the API spells idle capacity and its stability"),
    Unspelt("compute.accept_idle", _compute("accept_idle"), "how the API spells that idle capacity is accepted"),
    Unspelt("compute.prefer_idle", _compute("prefer_idle"), "how the API spells that idle capacity is preferred"),
    Unspelt("compute.idle_stability", _idle_stability, "how the API spells the stability of idle capacity"),
    Unspelt("compute.nodes", _nodes, "a node rule of one task; the rules that are known are a user's or a tenant's"),
    Unspelt("ray.head", _ray("head"), "how the API spells a Ray head of another size"),
    Unspelt("ray.runtime_env", _ray("runtime_env"), "how the API spells Ray's runtime environment"),
    Unspelt("ray.shared_storage", _ray("shared_storage"), "how the API spells Ray's shared storage"),
    Unspelt("ray.autoscaling", _ray("autoscaling"), "how the API spells Ray's autoscaling"),
)


def used(task: ResolvedTask) -> Iterator[tuple[Unspelt, Any]]:
    """Yield each of these fields that the task uses, with its value."""
    for field in UNSPELT:
        value = field.value(task)
        if value is not None:
            yield field, value
