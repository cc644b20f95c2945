"""Why replicas are not there yet: what controllers were refused, found where they tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.events import event_time, is_refusal
from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig, is_true
from siflow_provider.backends.kubernetes.state.waiting import plain_refusal
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.state.replicas import Member
    from siflow_provider.backends.kubernetes.state.view import View

__all__ = ["starting_reason", "why_missing"]

UNTAKEN_AFTER_SECONDS = 60.0
_CONTROLLERS = {"PyTorchJob": "the training operator", "RayJob": "KubeRay", "TrainJob": "Kubeflow Trainer"}
_SHOWN = 3


def why_missing(view: View, role: str = "") -> str:
    """Return why pods of a role are not made; "" when nobody says so."""
    told = [
        str(condition(cluster, "ReplicaFailure").get("message") or "")
        for cluster in view.seen.clusters
        if is_true(cluster, "ReplicaFailure") and role != "submitter"
    ]
    refusals = [event for event in view.seen.events if is_refusal(event) and _is_of(event, role)]
    newest = max(refusals, key=lambda event: str(event_time(event) or ""), default=None)
    if newest is not None:
        told.append(str(newest.get("message") or newest.get("reason")))
    return plain_refusal(told[-1]) if told else ""


def _is_of(event: Object, role: str) -> bool:
    submitters = dig(event, "involvedObject", "kind") == "Job" or "Submitter" in str(event.get("reason"))
    return submitters is (role == "submitter")


def starting_reason(view: View) -> str:
    """Return what the start waits for: replicas by name with the reason, or that nobody took the job."""
    if not view.job.get("status") and view.age_of(view.made_at) >= UNTAKEN_AFTER_SECONDS:
        return (
            f"{_CONTROLLERS[view.ref.object_kind]} has not taken the job: does it run, and does it watch namespace "
            f"{dig(view.job, 'metadata', 'namespace')}?"
        )
    if not view.sees_pods:
        return "its pods can't be read: pods may not be listed"
    waiting = [member for member in view.members if _waits(member)]
    told: dict[str, list[str]] = {}
    for member in waiting:
        told.setdefault(_text(view, member), []).append(member.name)
    texts = [f"{_listed(names)}: {text}" for text, names in told.items() if text][:_SHOWN]
    count = len(view.members)
    running = [f"{count - len(waiting)} of {count} replicas run"] if count > 1 else []
    return "; ".join([*running, *texts]) if texts else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{names[0]} and {len(names) - 1} more"


def _waits(member: Member) -> bool:
    return member.pod is None or member.pod.phase is Phase.STARTING


def _text(view: View, member: Member) -> str:
    return why_missing(view, member.role) if member.pod is None else member.pod.reason
