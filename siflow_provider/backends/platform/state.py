"""A platform task and its pods -> the snapshot that the core knows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.mark import Mark, read_veil
from siflow_provider.core.status import (
    Failure,
    FailureClass,
    JobRef,
    Phase,
    QueuePlace,
    ReplicaStatus,
    Status,
    main_replica,
)

if TYPE_CHECKING:
    from siflow_provider.backends.platform.wire import Brief, Pod

__all__ = ["failed_first", "lost", "phase_of", "replicas_of", "status_of"]

_PHASES = {
    "queueing": Phase.QUEUED,
    "queuing": Phase.QUEUED,
    "pending": Phase.QUEUED,
    "partialpending": Phase.STARTING,
    "running": Phase.RUNNING,
    "stopping": Phase.RUNNING,
    "succeeded": Phase.SUCCEEDED,
    "failed": Phase.FAILED,
    "error": Phase.FAILED,
    "stopped": Phase.STOPPED,
}
_POD_PHASES = {
    "pending": Phase.STARTING,
    "containercreating": Phase.STARTING,
    "running": Phase.RUNNING,
    "succeeded": Phase.SUCCEEDED,
    "completed": Phase.SUCCEEDED,
    "failed": Phase.FAILED,
    "error": Phase.FAILED,
}
_POD_NAME = re.compile(r"-(master|worker|head|submitter)-(\d+)$")
_KILLED = frozenset({137, 143})
"""Exit codes of replicas that were ended from outside: by a stop, or because another one had failed."""


def phase_of(status: str) -> Phase:
    """Return the phase that a status word stands for; a word that nobody knows is `unknown`, which ends nothing.

    Example:
        >>> phase_of("PartialPending"), phase_of("Hibernating")
        (<Phase.STARTING: 'starting'>, <Phase.UNKNOWN: 'unknown'>)
    """
    return _PHASES.get(status.lower(), Phase.UNKNOWN)


def replicas_of(pods: Sequence[Pod], mark: Mark, phase: Phase) -> dict[str, tuple[ReplicaStatus, Pod]]:
    """Return the replicas by name, main one first, each with its pod."""
    found = {}
    for index, pod in enumerate(pods):
        role, number = _role(pod.name, index, mark)
        rank = None if mark.kind == "RayJob" else 0 if role == "master" else number + 1
        replica = ReplicaStatus(
            name=f"{role}-{number}",
            role=role,
            phase=_pod_phase(pod, phase),
            rank=rank,
            node=pod.node or None,
            exit_code=pod.exit_code,
            reason=pod.why,
        )
        found[replica.name] = (replica, pod)
    order = {"submitter": 0, "master": 1, "head": 2, "worker": 3}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[1][0].role, 9), len(item[0]), item[0])))


def _role(name: str, index: int, mark: Mark) -> tuple[str, int]:
    match = _POD_NAME.search(name)
    if match:
        return match[1], int(match[2])
    if index == 0:  # a pod whose name tells nothing: the first one speaks for the run
        return main_replica(mark.kind).rpartition("-")[0], 0
    return "worker", index - 1


def _pod_phase(pod: Pod, task_phase: Phase) -> Phase:
    if task_phase is Phase.STOPPED and pod.exit_code in _KILLED:
        return Phase.STOPPED
    if pod.exit_code is not None:
        return Phase.SUCCEEDED if pod.exit_code == 0 else Phase.FAILED
    phase = _POD_PHASES.get(pod.status.lower(), Phase.STARTING)
    return Phase.STOPPED if task_phase.terminal and not phase.terminal else phase


def failed_first(replicas: Mapping[str, tuple[ReplicaStatus, Pod]]) -> str | None:
    """Return the name of the replica that failed first; those that were killed because of it count last."""
    failed = [(name, pod) for name, (_, pod) in replicas.items() if pod.exit_code not in (None, 0)]
    if not failed:
        return None
    return min(failed, key=lambda item: (item[1].exit_code in _KILLED, _when(item[1].update_time), item[0]))[0]


def _when(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else float("inf")


def status_of(
    ref: JobRef,
    task: Brief,
    mark: Mark,
    *,
    pods: Sequence[Pod],
    now: datetime,
    stopped_by: str = "",
    failure: Failure | None = None,
) -> Status:
    """Return the whole snapshot of a task as it is now.

    `pods` are () when they are not looked at; `stopped_by` is for a process that knows it; without a `failure` a plain
    one is made from what the platform says.
    """
    phase = phase_of(task.status)
    return Status(
        ref=ref,
        phase=phase,
        reason=_reason(task, phase),
        replicas=tuple(replica for replica, _ in replicas_of(pods, mark, phase).values()),
        queue=_queue(task) if phase is Phase.QUEUED else None,
        **_times(task, phase, now),
        gpus=mark.gpus,
        stopped_by=(stopped_by or _who(task) or "somebody on the platform") if phase is Phase.STOPPED else "",
        failure=(failure or _plain_failure(task)) if phase is Phase.FAILED else None,
        links={"dashboard": task.dashboard_url} if task.dashboard_url else {},
        owner=mark.user or task.owner,
        private=mark.private,
        timezone=mark.timezone,
        veil=read_veil(task),
        moves=mark.moves,
        origin=mark.origin,
    )


def _who(task: Brief) -> str:
    """Return who the platform says stopped it: its own words, which often begin with `stopped by`."""
    return re.sub(r"(?i)^\s*stopped by\s+", "", task.status_msg)


def _times(task: Brief, phase: Phase, now: datetime) -> dict[str, Any]:
    admitted, submitted = _admitted_at(task, phase), task.create_time
    until = admitted or task.end_time or now
    return {
        "submitted_at": submitted,
        "admitted_at": admitted,
        "running_at": admitted if task.start_time and phase not in {Phase.QUEUED, Phase.STARTING} else None,
        "ended_at": (task.end_time or task.update_time) if phase.terminal else None,
        "queued_seconds": max(0.0, (until - submitted).total_seconds()) if submitted is not None else 0.0,
    }


def _admitted_at(task: Brief, phase: Phase) -> datetime | None:
    if phase is Phase.QUEUED:
        return None
    return task.start_time or (task.update_time if phase is Phase.STARTING else None)


def _reason(task: Brief, phase: Phase) -> str:
    if phase is Phase.UNKNOWN:
        return f"the platform says {task.status!r}, which is not known here".strip()
    if task.status.lower() == "stopping":
        return task.status_msg or "is being stopped"
    return task.status_msg


def _queue(task: Brief) -> QueuePlace:
    info = task.queue_info
    position = None if info is None else info.ahead_in_pool.count + 1
    waits = "" if position is None else f"{position - 1} ahead in the pool"
    return QueuePlace(
        queue=task.resource_pool,
        position=position,
        reason=task.status_msg or waits or f"waits for room in {task.resource_pool}",
    )


def _plain_failure(task: Brief) -> Failure:
    said = f": {task.status_msg}" if task.status_msg else ""
    return Failure(
        category=FailureClass.PLATFORM, summary=f"the platform says {task.status}{said}", hint="See its logs and pods."
    )


def lost(ref: JobRef, last: Status | None) -> Status:
    """Return the snapshot of a run that the platform no longer knows; `last` is what was known before."""
    why = "the platform knows no task of its id any more"
    failure = Failure(
        category=FailureClass.LOST,
        summary=f"{ref.name} is lost: {why}.",
        hint="Somebody deleted it, or the access key may not see it. fault_tolerance with retry_on: [lost] resubmits.",
    )
    known = last or Status(ref=ref, phase=Phase.LOST)
    return Status(
        ref=ref,
        phase=Phase.LOST,
        reason=why,
        failure=failure,
        submitted_at=known.submitted_at,
        admitted_at=known.admitted_at,
        running_at=known.running_at,
        queued_seconds=known.queued_seconds,
        gpus=known.gpus,
        owner=known.owner,
        private=known.private,
        timezone=known.timezone,
        veil=known.veil,
        moves=known.moves,
        origin=known.origin,
    )
