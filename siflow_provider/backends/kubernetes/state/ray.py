"""Where a RayJob is (ray.io/v1, KubeRay v1.6.0). `jobDeploymentStatus` goes before `jobStatus`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.failures import (
    driver_failure,
    first_failed,
    member_failure,
    of_run,
    warnings,
)
from siflow_provider.backends.kubernetes.state.missing import starting_reason
from siflow_provider.backends.kubernetes.state.objects import dig, is_true, moment, since
from siflow_provider.backends.kubernetes.state.view import SETTLE_SECONDS, Verdict, View
from siflow_provider.core.diagnosis import Evidence, diagnose
from siflow_provider.core.status import Failure, FailureClass, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.backends.kubernetes.state.objects import Object
    from siflow_provider.backends.kubernetes.state.replicas import Member

__all__ = [
    "STOPPED_IN_RAY",
    "cluster_of",
    "ended",
    "head_failure",
    "head_loss",
    "is_suspending",
    "phase",
    "ran_at",
]

STOPPED_IN_RAY = "somebody through Ray itself (`ray job stop` or its dashboard)"
_TIMEOUTS = {
    "DeadlineExceeded": ("activeDeadlineSeconds", "Raise execution_timeout, or activeDeadlineSeconds in the patch."),
    "PreRunningDeadlineExceeded": ("preRunningDeadlineSeconds", "See the events: image, volumes, nodes."),
}


def _deployment(job: Object) -> str:
    return str(dig(job, "status", "jobDeploymentStatus") or "")


def _job_status(job: Object) -> str:
    return str(dig(job, "status", "jobStatus") or "")


def is_suspending(job: Object) -> bool:
    """Say whether KubeRay is putting the job aside, or has done so and has not begun anew."""
    return _deployment(job) in {"Suspending", "Suspended"}


def cluster_of(view: View) -> Object:
    """Return the RayCluster that the job runs on now; {} where there is none."""
    name = dig(view.job, "status", "rayClusterName")
    return next((each for each in view.seen.clusters if dig(each, "metadata", "name") == name), {})


def ended(view: View) -> Verdict | None:
    """Return the end that KubeRay has written; None while there is none, or its pods are still to be seen."""
    match _deployment(view.job), _job_status(view.job):
        case ("Failed" | "ValidationFailed", _) | ("Complete", "FAILED"):
            return _failed(view)
        case "Complete", "SUCCEEDED":
            return Verdict(Phase.SUCCEEDED, ended_at=_ended_at(view))
        case "Complete", "STOPPED":
            return Verdict(Phase.STOPPED, f"stopped by {STOPPED_IN_RAY}", ended_at=_ended_at(view))
    return None


def _ended_at(view: View) -> datetime | None:
    return moment(view.job, "status", "endTime") or moment(view.job, "status", "rayJobInfo", "endTime")


def _failed(view: View) -> Verdict | None:
    reason, end = str(dig(view.job, "status", "reason") or ""), _ended_at(view)
    member = first_failed(view)
    fresh = view.alive and view.sees_pods and view.age_of(end) < SETTLE_SECONDS
    if reason == "SubmissionFailed" and member is None and fresh and end is not None:
        return None
    failure = _failure(view, reason, member)
    return Verdict(Phase.FAILED, failure.summary, failure, end)


def _failure(view: View, reason: str, member: Member | None) -> Failure:
    message = str(dig(view.job, "status", "message") or "").strip()
    if reason in _TIMEOUTS:
        limit, hint = _TIMEOUTS[reason]
        return Failure(category=FailureClass.TIMEOUT, summary=f"{limit}: {message}", hint=hint, events=warnings(view))
    if reason == "ValidationFailed" or _deployment(view.job) == "ValidationFailed":
        return Failure(
            category=FailureClass.PLATFORM,
            summary=f"KubeRay refuses the job: {message}",
            hint="A part of the task, most often kubernetes.patch, is nothing that KubeRay takes.",
        )
    if member is not None and member.pod is not None and (member.pod.cause or member.pod.out_of_memory):
        return member_failure(view, member)
    if reason == "AppFailed" or _job_status(view.job) == "FAILED":
        return driver_failure(view, message)
    loss = head_loss(view)
    if loss:
        return head_failure(view, loss)
    return of_run(view, f"{reason}: {message}") if member is None else member_failure(view, member)


def head_loss(view: View) -> str:
    """Return what became of the head that the driver began in; "" while it is there or nothing is known.

    KubeRay makes another head and knows nothing of the driver that lived in the first; the submitter ends with 1 then.
    """
    by_name = {member.name: member.pod for member in view.members}
    head, submitter, end = by_name.get("head-0"), by_name.get("submitter-0"), _ended_at(view)
    began = moment(view.job, "status", "rayJobInfo", "startTime") or (submitter.started_at if submitter else None)
    if head is None or began is None or head.created_at is None:
        return ""
    if head.created_at > began:
        return f"was replaced at {head.created_at:%H:%M:%S} UTC"
    told = head.told_to_leave_at
    early = told is not None and (end is None or told < end)
    return f"was deleted at {told:%H:%M:%S} UTC" if early else ""


def head_failure(view: View, loss: str) -> Failure:
    """Return the failure of a run whose head went away under the driver."""
    reason = f"Node lost: the head's pod {loss}, and the driver with it"
    return diagnose(Evidence(replica="head-0", reason=reason, events=warnings(view)))


def phase(view: View) -> Verdict:
    """Return where the job is while it neither ended nor waits in a queue."""
    match _deployment(view.job):
        case "Retrying":
            return Verdict(Phase.RETRYING, str(dig(view.job, "status", "message") or ""))
        case "" | "Initializing":
            retried = bool(dig(view.job, "status", "failed"))
            return Verdict(Phase.RETRYING if retried else Phase.STARTING, starting_reason(view))
        case "Suspended" | "Waiting":
            return Verdict(Phase.STARTING, starting_reason(view))
        case "Running":
            if _job_status(view.job) in {"", "PENDING"}:
                return Verdict(Phase.STARTING, starting_reason(view) or _submitting(view))
            return Verdict(Phase.RUNNING)
        case "Failed":
            return Verdict(Phase.RUNNING, "it ended; the last states of its pods are still to come")
    return Verdict(Phase.UNKNOWN, f"KubeRay says {_deployment(view.job)} {_job_status(view.job)}".strip())


def _submitting(view: View) -> str:
    bare = any(member.role == "submitter" and member.pod is None for member in view.members)
    what = "the cluster is ready, and the submitter's pod is still to be made"
    return what if bare and view.sees_pods else "the driver is being submitted to the cluster"


def ran_at(view: View) -> datetime | None:
    """Return when all of the cluster ran and the driver began."""
    provisioned = cluster_of(view)
    ready = since(provisioned, "RayClusterProvisioned") if is_true(provisioned, "RayClusterProvisioned") else None
    driver = moment(view.job, "status", "rayJobInfo", "startTime")
    if driver is None:
        return None if _job_status(view.job) in {"", "PENDING"} else ready
    return driver if ready is None else max(ready, driver)
