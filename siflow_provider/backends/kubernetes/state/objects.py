"""What is known of one run at one moment, and how to read a Kubernetes object that may lack any field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["Object", "Seen", "condition", "dig", "is_true", "items", "labels", "marks_of", "moment", "since", "uid"]

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a cluster shows of one attempt of a run.

    Attributes:
        job: the PyTorchJob, TrainJob or RayJob; None when the cluster has no object of that name.
        gone: its last state when it was deleted, where that was seen.
        gone_at: when the deletion was seen.
        workload: Kueue's Workload of the job; of several (elastic jobs) the one that it runs on.
        clusters: RayClusters of the run, those of earlier stays in the cluster too.
        pods: pods of the run, the submitter's too.
        gone_pods: the last states of pods of the run that were deleted, as far as they are remembered, once the run is
            over. Those of an earlier stay in the cluster do not count.
        events: core/v1 Events about job, workload, clusters, submitter and pods.
        place: position in the queue, from 1 (None where unknown), and why it waits, in plain words.
        pulls: pod uid -> failed pulls that were counted by its containers' states.
        blind: plurals of resources that can't be read (`pods`, `workloads`, `events`): their absence proves nothing.
    """

    job: Object | None = None
    gone: Object | None = None
    gone_at: datetime | None = None
    workload: Object | None = None
    clusters: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    gone_pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    place: tuple[int | None, str] = (None, "")
    pulls: Mapping[str, int] = field(default_factory=dict)
    blind: frozenset[str] = field(default_factory=frozenset)


def dig(obj: Any, *path: str) -> Any:
    """Return what stands at a path of keys; None where any of them is missing.

    Example:
        >>> dig({"status": {"phase": "Running"}}, "status", "phase"), dig({}, "status", "phase")
        ('Running', None)
    """
    for key in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def items(obj: Any, *path: str) -> list[Any]:
    """Return the list at a path; [] where there is none."""
    found = dig(obj, *path)
    return list(found) if isinstance(found, list | tuple) else []


def labels(obj: Any) -> Mapping[str, str]:
    """Return the object's labels."""
    return dig(obj, "metadata", "labels") or {}


def marks_of(obj: Any) -> Mapping[str, str]:
    """Return the object's annotations."""
    return dig(obj, "metadata", "annotations") or {}


def uid(obj: Any) -> str:
    """Return the object's uid; "" where it has none."""
    return str(dig(obj, "metadata", "uid") or "")


def moment(obj: Any, *path: str) -> datetime | None:
    """Return the time at a path, aware, in UTC; None where there is none."""
    text = dig(obj, *path)
    if not isinstance(text, str) or not text:
        return None
    return datetime.fromisoformat(text).astimezone(UTC)


def condition(obj: Any, kind: str) -> Object:
    """Return the condition of a type; {} where it is not set."""
    return next((each for each in items(obj, "status", "conditions") if each.get("type") == kind), {})


def is_true(obj: Any, kind: str) -> bool:
    """Say whether a condition is set and True."""
    return bool(condition(obj, kind).get("status") == "True")


def since(obj: Any, kind: str) -> datetime | None:
    """Return when a condition last changed between True and False."""
    return moment(condition(obj, kind), "lastTransitionTime")
