"""One pod as the run sees it: did it start, does it run, how did it end and whose fault was that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig, is_true, items, moment
from siflow_provider.backends.kubernetes.state.waiting import all_container_states, why_waiting
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PodState", "is_out_of_reach", "pod_state"]

_NO_FAULT = frozenset({"", "Error", "Completed"})
_DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted by the scheduler for a pod of higher priority",
    "DeletionByTaintManager": "Node lost: the pod was removed from a node that is not ready",
    "DeletionByPodGC": "Node lost: the pod's node is gone",
    "EvictionByEvictionAPI": "Evicted: the node is being drained",
    "TerminationByKubelet": "Evicted by its node",
}
"""Reasons of the condition DisruptionTarget. source: Kubernetes v1.36 api/core/v1 and pkg/controller/podgc."""
_ENDED_PHASES = {"Succeeded": Phase.SUCCEEDED, "Failed": Phase.FAILED}


@dataclass(frozen=True, slots=True)
class PodState:
    """What matters of a pod.

    Attributes:
        name: the pod's own name.
        phase: starting, running, succeeded or failed.
        node: where it runs.
        reason: why it waits or ended, in plain words.
        exit_code: of the main container, or of the one that made the pod fail.
        out_of_memory: its memory ran out, by the kubelet's word.
        cause: the cluster's own word for the end, as `core.diagnosis` reads it; "" for an end of its own.
        created_at: when the pod was made.
        started_at: when its main container started.
        ended_at: when it ended.
        leaving_at: when it must be gone, once it is being deleted.
        told_to_leave_at: when it was told so.
        waiting: waiting reasons of its containers, such as `ErrImagePull`.
    """

    name: str
    phase: Phase
    node: str | None = None
    reason: str = ""
    exit_code: int | None = None
    out_of_memory: bool = False
    cause: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    leaving_at: datetime | None = None
    told_to_leave_at: datetime | None = None
    waiting: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase.terminal


def pod_state(pod: Object, container: str, events: Iterable[Object] = ()) -> PodState:
    """Return what matters of a pod.

    Args:
        pod: the pod.
        container: the main container's name; the first one where there is none of that name.
        events: the pod's own events, oldest first.
    """
    main = _main_state(pod, container)
    phase = _phase(pod, main)
    end = _Ending.of(pod, main) if phase is Phase.FAILED else _Ending()
    leaving = moment(pod, "metadata", "deletionTimestamp")
    grace = timedelta(seconds=float(dig(pod, "metadata", "deletionGracePeriodSeconds") or 0))
    made = moment(pod, "metadata", "creationTimestamp")
    started = moment(main, "state", "running", "startedAt") or moment(main, "state", "terminated", "startedAt")
    if started is not None and made is not None and started < made:
        started = None  # a container that could not be started has the year 1970 here
    return PodState(
        name=str(dig(pod, "metadata", "name") or ""),
        phase=phase,
        node=dig(pod, "spec", "nodeName"),
        reason=_reason(pod, phase, end, events),
        exit_code=end.exit_code if phase is Phase.FAILED else dig(main, "state", "terminated", "exitCode"),
        out_of_memory=end.out_of_memory,
        cause=end.cause or (_pod_cause(pod) if leaving is not None else ""),
        created_at=made,
        started_at=started,
        ended_at=_ended_at(pod, main) if phase.terminal else None,
        leaving_at=leaving,
        told_to_leave_at=None if leaving is None else leaving - grace,
        waiting=tuple(
            str(reason)
            for state in all_container_states(pod)
            if (reason := dig(state, "state", "waiting", "reason")) is not None
        ),
    )


def is_out_of_reach(pod: Object) -> bool:
    """Say whether the cluster hears nothing of the pod's node.

    The node controller then calls the pod not ready and gives no reason, while the containers stay as ready as the node
    last said; a kubelet changes both together, or names its reason.
    """
    # source: Kubernetes v1.36 pkg/controller/util/node/controller_utils.go, pkg/kubelet/status/generate.go
    ready = condition(pod, "Ready")
    unheard = ready.get("status") == "False" and not ready.get("reason") and is_true(pod, "ContainersReady")
    return unheard or ready.get("reason") == "NodeNotReady" or dig(pod, "status", "phase") == "Unknown"


def _main_state(pod: Object, container: str) -> Object:
    states = items(pod, "status", "containerStatuses")
    named = next((state for state in states if state.get("name") == container), None)
    first = dig(next(iter(items(pod, "spec", "containers")), {}), "name")
    return named or next((state for state in states if state.get("name") == first), {})


def _phase(pod: Object, main: Object) -> Phase:
    phase = dig(pod, "status", "phase")
    if phase in _ENDED_PHASES:
        return _ENDED_PHASES[phase]
    code = dig(main, "state", "terminated", "exitCode")
    if code is not None and dig(pod, "spec", "restartPolicy") == "Never":
        return Phase.FAILED if code else Phase.SUCCEEDED  # its sidecars still run
    if phase in {"Running", "Unknown"}:
        return Phase.RUNNING
    return Phase.STARTING


@dataclass(frozen=True, slots=True)
class _Ending:
    exit_code: int | None = None
    out_of_memory: bool = False
    cause: str = ""
    container: str = ""

    @classmethod
    def of(cls, pod: Object, main: Object) -> _Ending:
        state = main if _failed(main) else next(filter(_failed, all_container_states(pod)), {})
        ended: Any = dig(state, "state", "terminated") or {}
        reason, message = str(ended.get("reason") or ""), str(ended.get("message") or "").strip()
        cause = _pod_cause(pod)
        if not cause and reason == "ContainerStatusUnknown":
            cause = f"Node lost: {message or 'the node could not tell how the container ended'}"
        if not cause and reason not in _NO_FAULT and reason != "OOMKilled":
            cause = f"{reason}: {message}" if message else reason
        return cls(
            exit_code=ended.get("exitCode"),
            out_of_memory=reason == "OOMKilled" and not cause,
            cause=cause,
            container="" if state is main else str(state.get("name") or ""),
        )


def _failed(state: Object) -> bool:
    return bool(dig(state, "state", "terminated", "exitCode"))


def _pod_cause(pod: Object) -> str:
    """Return the cluster's reason for the pod's end, its own word first so that the diagnosis knows it."""
    reason = str(dig(pod, "status", "reason") or "")
    message = str(dig(pod, "status", "message") or "").strip()
    if reason in {"Terminated", "NodeShutdown", "Shutdown"}:
        return f"Node shutdown: {message or 'the node was shut down'}"
    if reason:
        return f"{reason}: {message}" if message else reason
    if not is_true(pod, "DisruptionTarget"):
        return ""
    disruption = condition(pod, "DisruptionTarget")
    said = _DISRUPTIONS.get(str(disruption.get("reason")), f"Evicted: {disruption.get('reason')}")
    return f"{said} ({disruption['message']})" if disruption.get("message") else said


def _reason(pod: Object, phase: Phase, end: _Ending, events: Iterable[Object]) -> str:
    if phase is Phase.STARTING:
        return why_waiting(pod, events)
    if phase is Phase.RUNNING:
        return _running_reason(pod)
    if end.out_of_memory:
        return "OOMKilled: its memory ran out"
    return f"{end.cause} (container {end.container})" if end.cause and end.container else end.cause or _whose(end)


def _whose(end: _Ending) -> str:
    return f"container {end.container} ended with exit code {end.exit_code}" if end.container else ""


def _running_reason(pod: Object) -> str:
    node = dig(pod, "spec", "nodeName")
    if is_out_of_reach(pod):
        return f"its node {node} does not answer"
    if moment(pod, "metadata", "deletionTimestamp") is not None:
        return _pod_cause(pod) or "is being deleted"
    restarts = sum(int(state.get("restartCount") or 0) for state in all_container_states(pod))
    return f"restarted {restarts} times" if restarts else ""


def _ended_at(pod: Object, main: Object) -> datetime | None:
    ends = [moment(state, "state", "terminated", "finishedAt") for state in all_container_states(pod)]
    own = moment(main, "state", "terminated", "finishedAt")
    known = [each for each in ends if each is not None]
    return own or (max(known) if known else moment(condition(pod, "DisruptionTarget"), "lastTransitionTime"))
