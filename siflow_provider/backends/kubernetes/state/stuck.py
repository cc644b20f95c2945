"""Ends that no controller will ever write: our own judgement, bounded in time and only where it is proven.

The cluster goes on holding what belongs to such a run, so the verdict is marked as leftover: whoever follows the run
removes it once its logs are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.failures import member_failure, warnings
from siflow_provider.backends.kubernetes.state.objects import condition, dig, is_true, moment, since
from siflow_provider.backends.kubernetes.state.ray import cluster_of, head_failure, head_loss
from siflow_provider.backends.kubernetes.state.replicas import Member
from siflow_provider.backends.kubernetes.state.view import Verdict, View
from siflow_provider.core.diagnosis import Evidence, diagnose
from siflow_provider.core.status import Failure, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.backends.kubernetes.state.pods import PodState

__all__ = ["STUCK_SECONDS", "ripens", "stuck"]

STUCK_SECONDS = 120.0
"""How long controllers may take to tell an end that the pods already show; they need seconds."""
_NEEDED = frozenset({"master", "worker"})


def stuck(view: View) -> Verdict | None:
    """Return the end of a run that can't go on although its controller says otherwise; None for any other run."""
    for member in view.members:
        if member.pod is not None and "InvalidImageName" in member.pod.waiting:
            return _verdict(view, member_failure(view, member))
    if view.ref.kind == "RayJob":
        return _dead_ray(view)
    return _dead_member(view)


def ripens(view: View) -> bool:
    """Say whether time alone may bring such an end: a replica is gone, ended, leaving or new while the run goes on."""
    began = moment(view.job, "status", "rayJobInfo", "startTime")
    return any(member.pod is None or _is_out_of_step(member.pod, began) for member in view.members)


def _is_out_of_step(pod: PodState, began: datetime | None) -> bool:
    new = began is not None and pod.created_at is not None and pod.created_at > began
    return new or pod.ended or pod.leaving_at is not None


def _verdict(view: View, failure: Failure, at: datetime | None = None) -> Verdict:
    return Verdict(Phase.FAILED, failure.summary, failure, at or view.now, leftover=True)


def _dead_member(view: View) -> Verdict | None:
    """A rank that must be gone by now and is not: its node no longer answers, and nobody takes the rank's place."""
    for member in view.members:
        pod = member.pod
        if pod is None or member.role not in _NEEDED or pod.leaving_at is None:
            continue
        if pod.phase is Phase.RUNNING and view.age_of(pod.leaving_at) >= STUCK_SECONDS:
            cause = (
                f"Node lost: {pod.node} does not end the pod, which must be gone since {pod.leaving_at:%H:%M:%S} UTC"
            )
            return _verdict(view, member_failure(view, replace(member, pod=replace(pod, cause=cause))), pod.leaving_at)
        if pod.ended and view.age_of(pod.ended_at) >= STUCK_SECONDS:
            return _verdict(view, member_failure(view, member), pod.ended_at)
    return None


def _dead_ray(view: View) -> Verdict | None:
    if dig(view.job, "status", "jobDeploymentStatus") != "Running" or not view.sees_pods:
        return None
    by_name = {member.name: member for member in view.members}
    head, submitter = by_name["head-0"], by_name.get("submitter-0")
    return _dead_head(view, head) or (None if submitter is None else _dead_submitter(view, submitter))


def _dead_head(view: View, head: Member) -> Verdict | None:
    """The driver lived in the head: with another head, or none, it is gone."""
    if head.pod is None:
        cluster = cluster_of(view)
        gone = None if is_true(cluster, "HeadPodReady") else since(cluster, "HeadPodReady")
        missing = condition(cluster, "HeadPodReady").get("reason") == "HeadPodNotFound"
        if not missing or gone is None or view.age_of(gone) < STUCK_SECONDS:
            return None
        return _verdict(view, head_failure(view, "is gone"), gone)
    made, loss = head.pod.created_at, head_loss(view)
    replaced = loss.startswith("was replaced")
    if not replaced or view.age_of(made) < STUCK_SECONDS:
        return None
    return _verdict(view, head_failure(view, f"{loss}; KubeRay still says Running"), made)


def _dead_submitter(view: View, submitter: Member) -> Verdict | None:
    pod = submitter.pod
    if pod is None:
        began = moment(view.job, "status", "rayJobInfo", "startTime")
        if began is None or view.age_of(began) < STUCK_SECONDS:
            return None
        reason = "the submitter's pod is gone, so KubeRay never hears of the job's end"
        return _verdict(view, diagnose(Evidence(replica="submitter-0", reason=reason, events=warnings(view))))
    if pod.phase is not Phase.FAILED or view.age_of(pod.ended_at) < STUCK_SECONDS:
        return None
    return _verdict(view, member_failure(view, submitter), pod.ended_at)
