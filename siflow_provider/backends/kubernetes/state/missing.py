"""Why replicas are not there yet: what controllers were refused, found where they tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.events import event_time
from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig, is_true
from siflow_provider.backends.kubernetes.state.waiting import plain_refusal
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.state.replicas import Member
    from siflow_provider.backends.kubernetes.state.view import View

__all__ = ["starting_reason", "why_missing"]

UNTAKEN_AFTER_SECONDS = 60.0
_CONTROLLERS = {"PyTorchJob": "the training operator", "RayJob": "KubeRay"}
# source: training-operator v1.9.3 pkg/controller.v1/control, KubeRay v1.6.0 utils/constant.go, Kubernetes batch/job
_REFUSALS = ("FailedCreate", "FailedToCreate")
_SHOWN = 3


def why_missing(view: View) -> str:
    """Return why pods of the run are not made; "" when nobody says so."""
    told = [
        str(condition(cluster, "ReplicaFailure").get("message") or "")
        for cluster in view.seen.clusters
        if is_true(cluster, "ReplicaFailure")
    ]
    refusals = [event for event in view.seen.events if _is_refusal(event)]
    newest = max(refusals, key=lambda event: str(event_time(event) or ""), default=None)
    if newest is not None:
        told.append(str(newest.get("message") or newest.get("reason")))
    return plain_refusal(told[-1]) if told else ""


def _is_refusal(event: Object) -> bool:
    return event.get("type") == "Warning" and str(event.get("reason") or "").startswith(_REFUSALS)


def starting_reason(view: View) -> str:
    """Return what the start waits for: replicas by name with the reason, or that nobody took the job."""
    if not view.job.get("status") and view.age_of(view.made_at) >= UNTAKEN_AFTER_SECONDS:
        return (
            f"{_CONTROLLERS[view.ref.kind]} has not taken the job: does it run, and does it watch namespace "
            f"{dig(view.job, 'metadata', 'namespace')}?"
        )
    if not view.sees_pods:
        return "its pods can't be read: pods may not be listed"
    waiting = [member for member in view.members if _waits(member)]
    told = [f"{member.name}: {text}" for member in waiting if (text := _text(view, member))]
    if not told:
        return ""
    count = len(view.members)
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return f"{count - len(waiting)} of {count} replicas run; {'; '.join(told[:_SHOWN])}{more}"


def _waits(member: Member) -> bool:
    return member.pod is None or member.pod.phase is Phase.STARTING


def _text(view: View, member: Member) -> str:
    return why_missing(view) if member.pod is None else member.pod.reason
