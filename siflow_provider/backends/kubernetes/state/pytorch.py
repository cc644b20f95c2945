"""Where a PyTorchJob is (kubeflow.org/v1, training-operator v1.9.3), or the TrainJob in its place (Trainer v2.2.0).

Success is the master's, as the operator has it: when the master ends with 0 the job has succeeded, and workers that
still run are ended. The reason of the success names them. A TrainJob says the same by its indexed Job's success policy;
its word for it is `Complete`, and it has none for a job that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.failures import (
    deleted_failure,
    first_deleted,
    first_failed,
    member_failure,
    of_run,
    was_put_out,
)
from siflow_provider.backends.kubernetes.state.missing import starting_reason
from siflow_provider.backends.kubernetes.state.objects import condition, is_true, items, moment, since
from siflow_provider.backends.kubernetes.state.view import SETTLE_SECONDS, Verdict, View
from siflow_provider.core.status import Phase

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.backends.kubernetes.state.replicas import Member
    from siflow_provider.core.status import Failure

__all__ = ["ended", "phase", "ran_at"]


def ended(view: View) -> Verdict | None:
    """Return the end that the operator has written; None while there is none, or its pods are still to be seen."""
    if is_true(view.job, "Failed"):
        return _failed(view)
    if _success(view) is not None:
        return _succeeded(view)
    return None


def _success(view: View) -> str | None:
    """Return the controller's word for success, where it has said it."""
    return next((word for word in ("Succeeded", "Complete") if is_true(view.job, word)), None)


def _ended_at(view: View, kind: str) -> datetime | None:
    return moment(view.job, "status", "completionTime") or since(view.job, kind)


def _settles(view: View, end: datetime | None) -> bool:
    return view.alive and view.sees_pods and view.age_of(end) < SETTLE_SECONDS


def _failed(view: View) -> Verdict | None:
    end = _ended_at(view, "Failed")
    failure = _replicas_failure(view, end)
    if failure is None and _settles(view, end):
        return None
    failure = failure or of_run(view, str(condition(view.job, "Failed").get("message") or ""))
    return Verdict(Phase.FAILED, failure.summary, failure, end)


def _replicas_failure(view: View, end: datetime | None) -> Failure | None:
    """Return the failure that one replica's end explains; one that the operator put out after the end explains none."""
    member = first_failed(view)
    if member is not None and not was_put_out(member):
        return member_failure(view, member)
    if member is None and _settles(view, end):
        return None
    deleted = first_deleted(view, end)
    return None if deleted is None else deleted_failure(view, deleted)


def _succeeded(view: View) -> Verdict | None:
    end = _ended_at(view, _success(view) or "")
    open_ = [member for member in view.members if member.pod is not None and not member.pod.ended]
    if any(member.pod is not None and member.pod.leaving_at is None for member in open_) and _settles(view, end):
        return None
    cut = [member.who for member in view.members if _is_cut_off(member)]
    reason = f"the master ended with 0; cut off by that: {', '.join(cut)}" if cut else ""
    return Verdict(Phase.SUCCEEDED, reason, ended_at=end)


def _is_cut_off(member: Member) -> bool:
    """Say whether a worker was seen unfinished; of one that is gone nobody can tell."""
    return member.role == "worker" and member.pod is not None and member.pod.phase is not Phase.SUCCEEDED


def phase(view: View) -> Verdict:
    """Return where the job is while it neither ended nor waits in a queue."""
    if view.over:
        return Verdict(Phase.RUNNING, "it ended; the last states of its pods are still to come")
    if is_true(view.job, "Restarting"):
        return Verdict(Phase.RETRYING, str(condition(view.job, "Restarting").get("message") or ""))
    # where pods are seen they are the truth: the operator's word for it comes after the first lines of the program
    coming = any(each.pod is None or each.pod.phase is Phase.STARTING for each in view.members)
    runs = not coming if view.sees_pods else is_true(view.job, "Running") or _is_ready(view)
    if not runs and not _any_ended(view):
        return Verdict(Phase.STARTING, starting_reason(view))
    return Verdict(Phase.RUNNING, _running_reason(view))


def _is_ready(view: View) -> bool:
    """Whether a TrainJob's one Job has all its pods running."""
    return any(each.get("ready") for each in items(view.job, "status", "jobsStatus"))


def _any_ended(view: View) -> bool:
    """Whether a replica's end was seen: the operator's word for it is on its way, and no replica is still to come."""
    return any(member.pod is not None and member.pod.ended for member in view.members)


def _running_reason(view: View) -> str:
    told = [f"{each.who}: {each.pod.reason}" for each in view.members if each.pod is not None and each.pod.reason]
    return "; ".join(told)


def ran_at(view: View) -> datetime | None:
    """Return when all replicas ran; for replicas that are gone by now the operator's word counts."""
    starts = [member.pod.started_at for member in view.members if member.pod is not None]
    known = [start for start in starts if start is not None]
    if known and len(known) == len(view.members):
        return max(known)
    running = condition(view.job, "Running")
    over = _success(view) is not None or is_true(view.job, "Failed")
    if view.sees_pods and not over:
        return None
    return since(view.job, "Running") if running.get("status") == "True" or over else None
