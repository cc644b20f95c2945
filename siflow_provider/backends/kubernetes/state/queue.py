"""Where a run stands in Kueue, and how long it was there: from the Workload's conditions (Kueue v0.17).

source: Kueue v0.17.0 apis/kueue/v1beta2/workload_types.go, pkg/workload/workload.go, pkg/workload/admissionchecks.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.names import QUEUE_NAME
from siflow_provider.backends.kubernetes.state.objects import (
    Object,
    Seen,
    condition,
    dig,
    is_true,
    items,
    labels,
    marks_of,
    moment,
    since,
)
from siflow_provider.core.status import QueuePlace

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "Stay",
    "newest_workload",
    "place_of",
    "plain_eviction",
    "queue_of",
    "queue_reason",
    "requeues_of",
    "stay_of",
    "waits_for_its_queue",
]

_TIME_UP = "DeactivatedDueToMaximumExecutionTimeExceeded"
UNMANAGED_AFTER_SECONDS = 60.0
"""Kueue makes the Workload within a second or two; after this long nobody does."""
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Annotation: `namespace/name` of the Workload in whose place this one came. source: pkg/workloadslicing"""
_REPLACED = "WorkloadSliceReplaced"
_PREEMPTED = re.compile(r"^Preempted to accommodate a workload .*?\bdue to ([^;]+)")
_PREEMPTIONS = {
    "prioritization in the ClusterQueue": "preempted by a job of higher priority in the same queue",
    "reclamation within the cohort": "preempted: another queue of the cohort took its lent quota back",
    "Fair Sharing within the cohort": "preempted: the cohort's queues get fair shares",
    "reclamation within the cohort while borrowing": "preempted by a job of higher priority while it ran on borrowed "
    "quota",
}
"""Kueue's own words. source: Kueue v0.17.0 pkg/scheduler/preemption/preemption.go"""
_EVICTIONS = {
    "PodsReadyTimeout": "its pods were not ready in the time that the cluster allows",
    "AdmissionCheck": "an admission check took its place back",
    "ClusterQueueStopped": "its cluster queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "nodes under it failed",
    "Deactivated": "somebody deactivated it (Workload spec.active is false)",
}


def newest_workload(workloads: Iterable[Object]) -> Object | None:
    """Return the Workload that stands for the job now: the one it runs on, else the newest unfinished, else the newest.

    An elastic job has one for each size that it grew to, others have one. What took the place of a smaller one says
    that it was admitted when the first of them was: the run has been in the cluster since.
    """
    known = list(workloads)
    newest = max(known, key=_rank, default=None)
    return newest if newest is None or requeues_of(newest) else _with_first_admission(newest, known)


def _rank(workload: Object) -> tuple[bool, bool, str]:
    made = str(dig(workload, "metadata", "creationTimestamp") or "")
    return not is_true(workload, "Finished"), is_true(workload, "Admitted"), made


def _with_first_admission(workload: Object, known: list[Object]) -> Object:
    """Return the Workload with the admission of the one that it, or the one before it, took the place of."""
    by_name = {f"{dig(each, 'metadata', 'namespace')}/{dig(each, 'metadata', 'name')}": each for each in known}
    chain = [workload]
    while (before := by_name.pop(marks_of(chain[-1]).get(_REPLACES, ""), None)) is not None:
        chain.append(before)
    if not (is_true(chain[-1], "Admitted") and _in_place(*chain[:2])):
        return workload
    others = [each for each in items(workload, "status", "conditions") if each.get("type") != "Admitted"]
    admitted = {"conditions": [*others, condition(chain[-1], "Admitted")]}
    return {**workload, "status": {**(dig(workload, "status") or {}), **admitted}}


def _in_place(workload: Object, before: Object | None = None) -> bool:
    """Say whether the run is in the cluster: Kueue ends what is replaced a moment before it admits what replaces it."""
    said = condition(workload, "Admitted").get("status")
    return said == "True" or (said is None and condition(before, "Finished").get("reason") == _REPLACED)


def queue_of(job: Object) -> str:
    """Return the LocalQueue that the job is submitted to; "" without a queue."""
    return labels(job).get(QUEUE_NAME, "")


def requeues_of(workload: Object | None) -> int:
    """Return how often the queue took the place back and put the run in line again."""
    evictions = items(workload, "status", "schedulingStats", "evictions")
    return sum(int(each.get("count") or 0) for each in evictions if not _is_deactivation(str(each.get("reason"))))


def _is_deactivation(reason: str) -> bool:
    return reason.startswith("Deactivated")


def place_of(job: Object, seen: Seen, now: datetime, *, waiting: bool) -> QueuePlace | None:
    """Return the place in the queue; None without a queue. Position and reason only while it waits."""
    queue = queue_of(job)
    if not queue:
        return None
    requeues = requeues_of(seen.workload)
    if not waiting:
        return QueuePlace(queue, requeues=requeues, reason=_eviction(seen.workload) if requeues else "")
    return QueuePlace(queue, seen.place[0], queue_reason(job, seen, now), requeues)


def queue_reason(job: Object, seen: Seen, now: datetime) -> str:
    """Return why the run waits, in plain words; "" when nothing is known."""
    workload = seen.workload
    if workload is None:
        return _without_workload(job, seen, now)
    if dig(workload, "spec", "active") is False:
        return "deactivated: it waits until somebody sets the Workload's spec.active to true"
    texts = [_eviction(workload)] if is_true(workload, "Evicted") else []
    reserved = condition(workload, "QuotaReserved")
    if reserved.get("status") == "True":
        texts += _checks(workload)
    elif reserved and not texts:
        texts.append(str(reserved.get("message") or reserved.get("reason") or "").strip())
    texts += _backoff(workload, now)
    told = "; ".join(text for text in texts if text)
    return told or seen.place[1]


def waits_for_its_queue(seen: Seen) -> bool:
    """Say whether nothing but a change in the cluster can change the reason why a queued run waits."""
    return seen.workload is not None and dig(seen.workload, "status", "requeueState", "requeueAt") is None


def _without_workload(job: Object, seen: Seen, now: datetime) -> str:
    if "workloads" in seen.blind:
        return "its place can't be read: workloads of kueue.x-k8s.io may not be listed"
    made = moment(job, "metadata", "creationTimestamp")
    if made is None or (now - made).total_seconds() < UNMANAGED_AFTER_SECONDS:
        return seen.place[1]
    return (
        "Kueue has not taken the job: does it run, is its integration for this kind on, and does it manage this "
        "namespace?"
    )


def _eviction(workload: Object | None) -> str:
    evicted = condition(workload, "Evicted")
    reason, message = str(evicted.get("reason") or ""), str(evicted.get("message") or "")
    if reason in {"Preempted", "QuotaReserved"}:  # the latter in a place again: the message keeps the old reason
        return plain_eviction(message.removeprefix("Previously: "))
    return _EVICTIONS.get(reason, message or reason)


def plain_eviction(message: str) -> str:
    """Return why the queue took a place back, without the uids in Kueue's message.

    Example:
        >>> plain_eviction("Preempted to accommodate a workload (UID: 7) due to prioritization in the ClusterQueue")
        'preempted by a job of higher priority in the same queue'
    """
    match = _PREEMPTED.match(message)
    if match is None:
        return message
    cause = match[1].strip()
    return _PREEMPTIONS.get(cause, f"preempted: {cause}")


def _checks(workload: Object) -> list[str]:
    waiting = [each for each in items(workload, "status", "admissionChecks") if each.get("state") != "Ready"]
    out = []
    for check in waiting:
        message = str(check.get("message") or "").strip()
        out.append(f"waits for the admission check {check.get('name')}" + (f": {message}" if message else ""))
    return out


def _backoff(workload: Object, now: datetime) -> list[str]:
    until = moment(workload, "status", "requeueState", "requeueAt")
    return [f"tried again at {until:%H:%M:%S} UTC"] if until is not None and until > now else []


@dataclass(frozen=True, slots=True)
class Stay:
    """The times of a run in queue and cluster.

    Attributes:
        submitted_at: when the job was made.
        admitted_at: when the queue let it go last, and it was not taken back since; without a queue the submission.
        held_before: seconds admitted in earlier stays, before the queue took the place back.
        queued_seconds: in the queue so far, all times together.
    """

    submitted_at: datetime | None
    admitted_at: datetime | None
    held_before: float
    queued_seconds: float


def stay_of(job: Object, workload: Object | None, *, ended_at: datetime | None, now: datetime) -> Stay:
    """Return the times of a run; Kueue itself adds up the time admitted before each eviction."""
    submitted = moment(job, "metadata", "creationTimestamp")
    if not queue_of(job):
        return Stay(submitted, submitted, 0.0, 0.0)
    admitted = _admitted_at(job, workload)
    held = _held_before(workload)
    until = admitted or ended_at or now
    queued = 0.0 if submitted is None else max(0.0, (until - submitted).total_seconds() - held)
    return Stay(submitted, admitted, held, queued)


def _admitted_at(job: Object, workload: Object | None) -> datetime | None:
    if workload is not None:
        return since(workload, "Admitted") if is_true(workload, "Admitted") else None
    suspended = dig(job, "spec", "suspend") or dig(job, "spec", "runPolicy", "suspend")
    return None if suspended else moment(job, "status", "startTime")


def _held_before(workload: Object | None) -> float:
    past = dig(workload, "status", "accumulatedPastExecutionTimeSeconds")
    if past is None and not is_true(workload, "Admitted") and condition(workload, "Evicted").get("reason") == _TIME_UP:
        past = dig(workload, "spec", "maximumExecutionTimeSeconds")  # Kueue clears the sum when the time is used up
    return float(past or 0.0)
