"""How much a task needs: per replica, as a whole, and at most under autoscaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["Need", "need"]


@dataclass(frozen=True, slots=True)
class Need:
    """What a task asks for on one of its flavors.

    Attributes:
        per_replica: one replica (instance x units_per_replica); of a RayJob, one worker.
        head: the Ray head where it differs from the workers, else None.
        task: everything that must be there for the start (autoscaling: with its minimum of workers).
        maximum: the most it can grow to; equal to `task` without autoscaling.
    """

    per_replica: Resources
    head: Resources | None
    task: Resources
    maximum: Resources


def need(resolved: ResolvedTask, flavor_index: int = 0) -> Need:
    """Return what the whole task needs on one of its listed instances, the best by default.

    Raises:
        IndexError: the task lists no such instance.
    """
    per_replica = resolved.flavors[flavor_index].resources
    head = resolved.head.resources if resolved.head is not None else None
    task = resolved.task
    bounds = task.ray.autoscaling if isinstance(task, RayJob) else None
    most = task.workers if bounds is None else bounds.max_workers
    first = head if head is not None else per_replica
    return Need(
        per_replica=per_replica,
        head=head,
        task=Resources.total([first, per_replica * resolved.workers_to_start]),
        maximum=Resources.total([first, per_replica * most]),
    )
