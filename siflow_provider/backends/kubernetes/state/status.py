"""The whole snapshot of one attempt from what the cluster shows of it. Pure.

Order of judgement: an end that a controller wrote; a job that is gone or going; an end that only the queue knows; the
queue; an end that no controller will write; then what the controller says of a run that goes on. So a terminal phase
never goes back: what it rests on does not change any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state import pytorch, ray
from siflow_provider.backends.kubernetes.state.failures import deactivated, lost, refused
from siflow_provider.backends.kubernetes.state.missing import why_missing
from siflow_provider.backends.kubernetes.state.notes import notes, stopped_by
from siflow_provider.backends.kubernetes.state.objects import Seen, condition, dig, is_true, moment, since, uid
from siflow_provider.backends.kubernetes.state.pulls import failed_pulls
from siflow_provider.backends.kubernetes.state.queue import place_of, queue_of, queue_reason, stay_of
from siflow_provider.backends.kubernetes.state.size import accelerators_of
from siflow_provider.backends.kubernetes.state.stuck import ripens, stuck
from siflow_provider.backends.kubernetes.state.view import Verdict, View
from siflow_provider.core.status import JobRef, Phase, ReplicaStatus, Status

if TYPE_CHECKING:
    from datetime import datetime
    from types import ModuleType

    from siflow_provider.backends.kubernetes.state.pods import PodState
    from siflow_provider.backends.kubernetes.state.replicas import Member

__all__ = ["changes_by_time", "phase_of", "status_of"]

_UNSUSPENDED = "it is suspended by hand (spec.suspend), and no queue will let it go"


def status_of(ref: JobRef, seen: Seen, now: datetime) -> Status:
    """Return the snapshot.

    Args:
        ref: the attempt; an object with another uid is somebody else's, whatever its name.
        seen: what the cluster shows.
        now: the moment now.

    Example:
        >>> status_of(ref, Seen(job=job, pods=pods), utc_now()).phase
        <Phase.RUNNING: 'running'>
    """
    view = _view(ref, seen, now)
    if view is None:
        return _unseen(ref, seen)
    verdict = _verdict(view)
    ended_at = _ended_at(view, verdict) if verdict.phase.terminal else None
    stay = stay_of(view.job, seen.workload, ended_at=ended_at, now=now)
    return Status(
        ref=ref,
        phase=verdict.phase,
        reason=verdict.reason,
        replicas=tuple(_replica(view, verdict, member) for member in view.members),
        queue=place_of(view.job, seen, now, waiting=verdict.phase is Phase.QUEUED),
        events=view.events,
        submitted_at=stay.submitted_at,
        admitted_at=stay.admitted_at,
        running_at=_running_at(view, verdict),
        ended_at=ended_at,
        queued_seconds=stay.queued_seconds,
        held_before=stay.held_before,
        gpus=accelerators_of(ref.kind, view.job, seen.workload),
        stopped_by=_stopper(view) if verdict.phase is Phase.STOPPED else "",
        failure=verdict.failure,
        failed_pulls=failed_pulls(seen, view.told),
        leftover=verdict.leftover,
        **notes(view.job),
    )


def phase_of(ref: JobRef, seen: Seen, now: datetime) -> Phase:
    """Return nothing but the snapshot's phase, in a fraction of the time."""
    view = _view(ref, seen, now)
    return Phase.LOST if view is None else _verdict(view).phase


def changes_by_time(ref: JobRef, seen: Seen, now: datetime) -> bool:
    """Say whether the snapshot of a running run may become another one although nothing happens in the cluster.

    Whoever waits for events alone looks again now and then as long as this is so; a run in any other phase is looked at
    again anyway.
    """
    view = _view(ref, seen, now)
    return view is not None and (view.over or ripens(view))


def _view(ref: JobRef, seen: Seen, now: datetime) -> View | None:
    if seen.job is not None and uid(seen.job) == ref.uid:
        return View(ref, seen, seen.job, alive=True, now=now)
    if seen.gone is not None and uid(seen.gone) == ref.uid:
        return View(ref, seen, seen.gone, alive=False, now=now)
    return None


def _unseen(ref: JobRef, seen: Seen) -> Status:
    if seen.job is not None:
        why = f"its {ref.object_kind} was deleted, and another one of the same name stands there"
    else:
        why = f"the cluster has no such {ref.object_kind} any more; who deleted it was not seen"
    return Status(ref=ref, phase=Phase.LOST, reason=why, failure=lost(ref.name, why))


def _verdict(view: View) -> Verdict:
    kind = _words_of(view)
    return kind.ended(view) or _gone(view) or _given_up(view) or _queued(view) or stuck(view) or kind.phase(view)


def _words_of(view: View) -> ModuleType:
    """Return the module that reads the job's own status."""
    return ray if view.ref.kind == "RayJob" else pytorch


def _gone(view: View) -> Verdict | None:
    going = moment(view.job, "metadata", "deletionTimestamp")
    if view.alive and going is None:
        return None
    at, by = going or view.seen.gone_at or view.now, stopped_by(view.job)
    if by:
        return Verdict(Phase.STOPPED, f"stopped by {by}", ended_at=at)
    why = f"its {view.ref.object_kind} was deleted by somebody else"
    return Verdict(Phase.LOST, why, lost(view.ref.name, why), at)


def _given_up(view: View) -> Verdict | None:
    """The queue ended the run, and the job will never say so."""
    workload = view.seen.workload
    if workload is None:
        return None
    evicted, finished = condition(workload, "Evicted"), condition(workload, "Finished")
    if dig(workload, "spec", "active") is False and str(evicted.get("reason") or "").startswith("DeactivatedDueTo"):
        failure, at = deactivated(workload), since(workload, "Evicted")
    elif finished.get("status") == "True" and finished.get("reason") in {"FailedToStart", "OutOfSync"}:
        failure, at = refused(workload), since(workload, "Finished")
    else:
        return None
    return Verdict(Phase.FAILED, failure.summary, failure, at, leftover=True)


def _queued(view: View) -> Verdict | None:
    job, workload = view.job, view.seen.workload
    suspended = dig(job, "spec", "suspend") or dig(job, "spec", "runPolicy", "suspend")
    aside = view.ref.kind == "RayJob" and ray.is_suspending(job)
    evicted = workload is not None and is_true(workload, "Evicted")
    if not queue_of(job):
        return Verdict(Phase.QUEUED, _UNSUSPENDED) if suspended else None
    if not (suspended or aside or evicted):
        return None
    active = dig(workload, "spec", "active") is not False
    if workload is not None and is_true(workload, "Admitted") and active and not evicted:
        return Verdict(Phase.STARTING, "admitted; about to start")
    return Verdict(Phase.QUEUED, queue_reason(job, view.seen, view.now))


def _ended_at(view: View, verdict: Verdict) -> datetime:
    ends = [member.pod.ended_at for member in view.members if member.pod is not None and member.pod.ended_at]
    return (
        verdict.ended_at
        or (None if view.seen.workload is None else since(view.seen.workload, "Finished"))
        or (max(ends) if ends else None)
        or view.seen.gone_at
        or view.now
    )


def _running_at(view: View, verdict: Verdict) -> datetime | None:
    if verdict.phase in {Phase.QUEUED, Phase.STARTING}:
        return None
    ran: datetime | None = _words_of(view).ran_at(view)
    return ran


def _stopper(view: View) -> str:
    return stopped_by(view.job) or ray.STOPPED_IN_RAY


def _replica(view: View, verdict: Verdict, member: Member) -> ReplicaStatus:
    pod = member.pod
    if pod is None:
        phase, reason = _without_pod(view, verdict, member)
        return ReplicaStatus(member.name, member.role, phase, member.rank, reason=reason)
    phase = pod.phase
    if verdict.phase.terminal and not verdict.leftover and not phase.terminal:
        phase = Phase.LOST if verdict.phase is Phase.LOST else Phase.STOPPED
    elif phase is Phase.FAILED and _was_removed(member, pod):
        phase = Phase.STOPPED
    return ReplicaStatus(member.name, member.role, phase, member.rank, pod.node, pod.exit_code, pod.reason)


def _was_removed(member: Member, pod: PodState) -> bool:
    """Say whether KubeRay took a worker away while it ran, as its autoscaler wants: Ray's processes end with 1 then."""
    told, ended = pod.told_to_leave_at, pod.ended_at
    ray_worker = member.role == "worker" and member.rank is None
    return ray_worker and not pod.cause and told is not None and ended is not None and told <= ended


def _without_pod(view: View, verdict: Verdict, member: Member) -> tuple[Phase, str]:
    if verdict.phase is Phase.QUEUED:
        return Phase.QUEUED, ""
    if not verdict.phase.terminal:
        return Phase.STARTING, why_missing(view, member.role)
    return (Phase.LOST if verdict.phase is Phase.LOST else Phase.STOPPED), ""
