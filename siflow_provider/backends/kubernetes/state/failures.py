"""Why a run failed: the first replica that did, with the cluster's own words, through the core's diagnosis."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig
from siflow_provider.core.diagnosis import Evidence, diagnose
from siflow_provider.core.pieces import behind_cut
from siflow_provider.core.status import Failure, FailureClass, Phase

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.state.replicas import Member
    from siflow_provider.backends.kubernetes.state.view import View

__all__ = [
    "deactivated",
    "deleted_failure",
    "driver_failure",
    "first_deleted",
    "first_failed",
    "lost",
    "member_failure",
    "of_run",
    "refused",
    "warnings",
    "was_put_out",
]

_SHOWN_EVENTS = 5
_KILLED_BY_OTHERS = frozenset({143, 137})
_LAST = datetime.max.replace(tzinfo=UTC)
_DRIVER_CODE = re.compile(r"exit code (-?\d+)")
_DRIVER_LOG = re.compile(r"last available logs \(truncated to [\d,]+ chars\):\s*\n", re.IGNORECASE)
_DRIVER_LOG_CHARACTERS = 20_000
_CAUSES = {
    "MaximumExecutionTimeExceeded": (
        FailureClass.TIMEOUT,
        "it was admitted longer than kueue.x-k8s.io/max-exec-time-seconds allows",
        "Raise execution_timeout.",
    ),
    "RequeuingLimitExceeded": (
        FailureClass.PLATFORM,
        "its pods were not ready in time, more often than the cluster allows",
        "See the events: image, volumes, nodes. The limit is waitForPodsReady in Kueue's configuration.",
    ),
    "AdmissionCheck": (
        FailureClass.QUOTA,
        "an admission check refused it",
        "Ask who keeps the cluster queue; the Workload's status.admissionChecks tell more.",
    ),
}


def first_failed(view: View) -> Member | None:
    """Return the replica that failed first; one that ended since it was told to leave only where there is no other.

    A replica that was killed from outside in the same second as another ended by itself is rather the victim.
    """
    known = {member.pod.name for member in view.members if member.pod is not None}
    others = [member for member in view.fallen if member.pod is not None and member.pod.name not in known]
    failed = [each for each in (*view.members, *others) if each.pod is not None and each.pod.phase is Phase.FAILED]
    return min(failed, key=_order, default=None)


def first_deleted(view: View, end: datetime | None) -> Member | None:
    """Return the replica whose pod somebody deleted while it ran, and so ended the job; None when that can't be told.

    Where pods may not be seen, none of them is missed.

    The operator counts such a pod as failed as soon as it is told to leave. It deletes the others itself, after the
    end, and says which; they may be gone before it is.
    """
    if not view.sees_pods:
        return None
    found = [each for each in view.members if each.role in _failed_roles(view) and not _ended_by_itself(each)]
    told = {str(event.get("message")) for event in view.seen.events if event.get("reason") == "SuccessfulDeletePod"}
    spared = [each for each in found if f"Deleted pod: {view.ref.name}-{each.name}" not in told]
    if len(found) == 1 or (told and len(spared) == 1):
        return (spared or found)[0]
    early = sorted(
        (each.pod.told_to_leave_at, each.rank or 0, each)
        for each in found
        if each.pod is not None
        and each.pod.told_to_leave_at is not None
        and (end or _LAST) >= each.pod.told_to_leave_at
    )
    first = [member for moment_of_it, _, member in early if moment_of_it == early[0][0]]
    # all pods of a lost node are told at once: any of them speaks for it, and the operator's own word gives no cause
    known = [member for member in first if member.pod is not None and member.pod.cause]
    return first[0] if len(first) == 1 else next(iter(known), None)


def was_put_out(member: Member) -> bool:
    """Say whether a replica ended because its pod was told to leave, and nothing else explains its end."""
    pod = member.pod
    if pod is None or pod.ended_at is None or pod.told_to_leave_at is None or pod.cause or pod.out_of_memory:
        return False
    if pod.ended_at == pod.told_to_leave_at:  # Kubernetes keeps whole seconds
        return pod.exit_code in _KILLED_BY_OTHERS
    return pod.ended_at > pod.told_to_leave_at


def _ended_by_itself(member: Member) -> bool:
    return member.pod is not None and member.pod.ended and not was_put_out(member)


def _failed_roles(view: View) -> set[str]:
    if view.ref.object_kind == "TrainJob":  # which does not tell
        return {"master", "worker"}
    counts = dig(view.job, "status", "replicaStatuses") or {}
    return {str(role).lower() for role, each in counts.items() if dig(each, "failed")}


def deleted_failure(view: View, member: Member) -> Failure:
    """Return the failure of a replica whose pod somebody deleted while it ran."""
    cause = member.pod.cause if member.pod is not None else ""
    reason = cause or f"its pod{_where(member)} was deleted by somebody while it ran"
    evidence = Evidence(member.name, member.rank, reason=reason, events=warnings(view), veil=view.veil)
    failure = diagnose(evidence)
    return _placed(failure, member) if cause else failure


def _where(member: Member) -> str:
    return f" on {member.pod.node}" if member.pod is not None and member.pod.node else ""


def _placed(failure: Failure, member: Member) -> Failure:
    """Return the failure with the replica's node in its summary, where that is known."""
    where = _where(member)
    return failure.model_copy(update={"summary": failure.summary.replace(member.who, f"{member.who}{where}", 1)})


def _order(member: Member) -> tuple[bool, datetime, bool, int]:
    pod = member.pod
    assert pod is not None
    victim = pod.exit_code in _KILLED_BY_OTHERS and not pod.out_of_memory and not pod.cause
    return (was_put_out(member), pod.ended_at or _LAST, victim, member.rank or 0)


def member_failure(view: View, member: Member) -> Failure:
    """Return the failure that one replica's end speaks for."""
    pod = member.pod
    assert pod is not None
    failure = diagnose(
        Evidence(
            replica=member.name,
            rank=member.rank,
            exit_code=pod.exit_code,
            out_of_memory=pod.out_of_memory,
            reason=pod.cause or pod.reason,
            events=warnings(view),
            veil=view.veil,
        )
    )
    return _placed(failure, member)


def of_run(view: View, reason: str) -> Failure:
    """Return the failure of a run of which no replica tells why; `reason` is the controller's own word."""
    return diagnose(Evidence(reason=reason, events=warnings(view), veil=view.veil))


def driver_failure(view: View, message: str) -> Failure:
    """Return the failure of a Ray job whose driver ended; Ray's message holds exit code and last lines."""
    code = _DRIVER_CODE.search(message)
    parts = _DRIVER_LOG.split(message, maxsplit=1)
    log = parts[1] if len(parts) > 1 else ""
    if len(message) >= _DRIVER_LOG_CHARACTERS:
        log = behind_cut(log, view.veil)
    lines = tuple(line for line in log.splitlines() if line.strip())
    number = int(code[1]) if code is not None else None
    failure = diagnose(
        Evidence(
            replica="submitter-0",
            exit_code=128 - number if number is not None and number < 0 else number,
            reason=parts[0].strip().rstrip(",:"),
            last_lines=lines,
            events=warnings(view),
            veil=view.veil,
        )
    )
    # its lines are in the submitter's log, but it ran on the head
    return failure.model_copy(update={"summary": failure.summary.replace("submitter-0", "the driver", 1)})


def warnings(view: View) -> tuple[str, ...]:
    """Return the last warnings about the run, oldest first."""
    return tuple(event.text for event in view.events if event.warning)[-_SHOWN_EVENTS:]


def lost(name: str, why: str) -> Failure:
    """Return the failure of a run that is gone."""
    return Failure(
        category=FailureClass.LOST,
        summary=f"{name} is lost: {why}.",
        hint="This provider did not stop it. fault_tolerance with retry_on: [lost] starts it again by itself.",
    )


def deactivated(workload: Object) -> Failure:
    """Return the failure of a run that Kueue gave up for good."""
    evicted = condition(workload, "Evicted")
    cause = str(evicted.get("reason") or "").removeprefix("DeactivatedDueTo")
    unknown = (FailureClass.QUOTA, f"its queue gave it up ({cause})", "See the Workload's conditions.")
    category, text, hint = _CAUSES.get(cause, unknown)
    message = str(evicted.get("message") or "").strip()
    return Failure(
        category=category, summary=f"the run was ended: {text}", hint=hint, events=(message,) if message else ()
    )


def refused(workload: Object) -> Failure:
    """Return the failure of a run that Kueue finished although the job itself never ran or no longer fits it."""
    finished = condition(workload, "Finished")
    reason, message = str(finished.get("reason") or ""), str(finished.get("message") or "").strip()
    hint = (
        "A node_selector or label of the task contradicts the flavor that its queue gave it: leave it out, or use a "
        "queue of such nodes."
        if reason == "FailedToStart"
        else "The job was changed by hand while its queue held a place for it: submit it again."
    )
    return Failure(category=FailureClass.PLATFORM, summary=f"Kueue gave it up: {reason}: {message}", hint=hint)
