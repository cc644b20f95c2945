"""What Kueue says of a run, told to people: phase, place, reason, requeues and the times that are paid for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.queue import newest_workload
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import FailureClass, Phase, QueuePlace
from tests.unit.backends.kubernetes.state.objects import at, clock, condition, pod, pytorchjob, rayjob, ref, workload

WAITS = pytorchjob(queue="gpu", suspend=True)
RUNS = pytorchjob(condition("Running", after=60), queue="gpu")
ADMITTED = (condition("QuotaReserved", after=40), condition("Admitted", after=40))
PENDING = condition("QuotaReserved", False, reason="Pending", message="insufficient unused quota for nvidia.com/gpu")
SAID = "Preempted to accommodate a workload (UID: 7f, JobUID: 9a) due to {}; preemptor path: /a; preemptee path: /a"
EVICTED = condition("Evicted", after=50, reason="Preempted", message=SAID.format("prioritization in the ClusterQueue"))
DUE_TO_TIME = "DeactivatedDueToMaximumExecutionTimeExceeded"


def deactivated(cause: str) -> Any:
    return workload(condition("Evicted", after=50, reason=f"DeactivatedDueTo{cause}", message="told why"), active=False)


ROWS: dict[str, tuple[Any, Any, Phase]] = {
    "no workload yet": (WAITS, None, Phase.QUEUED),
    "a workload without conditions": (WAITS, workload(), Phase.QUEUED),
    "pending": (WAITS, workload(PENDING), Phase.QUEUED),
    "the queue is stopped": (WAITS, workload(condition("QuotaReserved", False, reason="Inadmissible")), Phase.QUEUED),
    "reserved, checks run": (WAITS, workload(condition("QuotaReserved")), Phase.QUEUED),
    "admitted": (WAITS, workload(*ADMITTED), Phase.STARTING),
    "evicted, pods drain": (WAITS, workload(*ADMITTED, EVICTED), Phase.QUEUED),
    "evicted, job not stopped yet": (RUNS, workload(*ADMITTED, EVICTED), Phase.QUEUED),
    "deactivated by hand": (WAITS, workload(PENDING, active=False), Phase.QUEUED),
    "its time is used up": (WAITS, deactivated("MaximumExecutionTimeExceeded"), Phase.FAILED),
    "its time is used up, job not stopped yet": (RUNS, deactivated("MaximumExecutionTimeExceeded"), Phase.FAILED),
    "failed to start": (WAITS, workload(condition("Finished", reason="FailedToStart")), Phase.FAILED),
    "changed under the queue": (WAITS, workload(condition("Finished", reason="OutOfSync")), Phase.FAILED),
    "running": (RUNS, workload(*ADMITTED), Phase.RUNNING),
    "finished, and the job's word comes later": (
        RUNS,
        workload(*ADMITTED, condition("Finished", reason="Succeeded")),
        Phase.RUNNING,
    ),
    "resuming Ray job": (rayjob("Suspended", queue="gpu"), workload(*ADMITTED), Phase.STARTING),
    "Ray job that is put aside": (rayjob("Suspending", queue="gpu"), workload(*ADMITTED, EVICTED), Phase.QUEUED),
}  # fmt: skip
PODS = tuple(pod(name, made=55) for name in ("master-0", "worker-0", "worker-1"))


@pytest.mark.parametrize(("job", "found", "phase"), ROWS.values(), ids=ROWS.keys())
def test_phase_of_a_job_in_a_queue(job: Any, found: Any, phase: Phase) -> None:
    pods = PODS if job is RUNS else ()
    status = status_of(ref(job["kind"]), Seen(job=job, workload=found, pods=pods), clock(70))
    assert status.phase is phase
    assert status.leftover is (phase is Phase.FAILED)


def place(*conditions: Any, seconds: float = 30, job: Any = WAITS, **fields: Any) -> QueuePlace:
    status = status_of(
        ref(), Seen(job=job, workload=workload(*conditions, **fields), place=(4, "2 ahead")), clock(seconds)
    )
    assert status.queue is not None
    return status.queue


def test_place_has_position_and_the_queues_own_reason() -> None:
    assert place(PENDING) == QueuePlace("gpu", 4, "insufficient unused quota for nvidia.com/gpu", 0)
    assert place() == QueuePlace("gpu", 4, "2 ahead", 0)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("prioritization in the ClusterQueue", "preempted by a job of higher priority in the same queue"),
        ("reclamation within the cohort", "preempted: another queue of the cohort took its lent quota back"),
        ("a whim of the scheduler", "preempted: a whim of the scheduler"),
    ],
)
def test_preemption_is_told_in_plain_words_and_counted_as_a_requeue(why: str, text: str) -> None:
    stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]}
    evicted = condition("Evicted", reason="Preempted", message=SAID.format(why))
    found = place(PENDING, evicted, schedulingStats=stats)
    assert (found.requeues, found.reason) == (2, text)


def test_back_off_says_until_when() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout")
    found = place(PENDING, evicted, requeueState={"count": 1, "requeueAt": at(90)})
    assert found.reason == "its pods were not ready in the time that the cluster allows; tried again at 00:01:30 UTC"


def test_admission_checks_that_are_waited_for_are_named() -> None:
    checks = [{"name": "capacity", "state": "Pending", "message": "asking for nodes"}, {"name": "ok", "state": "Ready"}]
    found = place(condition("QuotaReserved"), admissionChecks=checks)
    assert found.reason == "waits for the admission check capacity: asking for nodes"


def test_deactivation_by_hand_says_how_it_goes_on() -> None:
    assert "spec.active to true" in place(PENDING, active=False).reason


def test_a_deactivation_is_no_requeue() -> None:
    stats = {"evictions": [{"reason": "Deactivated", "count": 1}, {"reason": "NodeFailures", "count": 1}]}
    assert place(schedulingStats=stats).requeues == 1


def test_job_that_kueue_does_not_take_says_so_and_stays_queued() -> None:
    early = status_of(ref(), Seen(job=WAITS), clock(30))
    late = status_of(ref(), Seen(job=WAITS), clock(61))
    assert early.queue is not None
    assert late.queue is not None
    assert (early.phase, early.queue.reason) == (Phase.QUEUED, "")
    assert (late.phase, late.queue.reason[:31]) == (Phase.QUEUED, "Kueue has not taken the job: do")


def test_workloads_that_can_not_be_read_are_not_taken_for_missing() -> None:
    status = status_of(ref(), Seen(job=WAITS, blind=frozenset({"workloads"})), clock(3600))
    assert status.queue is not None
    assert status.queue.reason.startswith("its place can't be read")


def test_position_is_told_only_while_it_waits() -> None:
    stats = {"evictions": [{"reason": "Preempted", "count": 1}]}
    back = condition("Evicted", False, reason="QuotaReserved", message=f"Previously: {EVICTED['message']}")
    seen = Seen(job=RUNS, workload=workload(*ADMITTED, back, schedulingStats=stats), pods=PODS, place=(4, "x"))
    status = status_of(ref(), seen, clock(70))
    assert status.queue == QueuePlace("gpu", None, "preempted by a job of higher priority in the same queue", 1)


def test_times_add_up_over_a_requeue() -> None:
    """Queued 0-40, admitted 40-100, queued 100-250, admitted from 250."""
    before = workload(PENDING, EVICTED, condition("Admitted", False, after=100), accumulatedPastExecutionTimeSeconds=60)
    waiting = status_of(ref(), Seen(job=WAITS, workload=before), clock(200))
    assert (waiting.queued_seconds, waiting.held_before, waiting.admitted_at) == (140, 60, None)
    assert waiting.running_seconds(clock(200)) == 60
    again = (condition("QuotaReserved", after=250), condition("Admitted", after=250))
    job = pytorchjob(condition("Running", after=255), queue="gpu")
    seen = Seen(job=job, workload=workload(*again, accumulatedPastExecutionTimeSeconds=60), pods=PODS)
    running = status_of(ref(), seen, clock(400))
    assert (running.queued_seconds, running.held_before, running.admitted_at) == (190, 60, clock(250))
    assert running.running_seconds(clock(400)) == 210
    over = pytorchjob(condition("Succeeded", after=500), queue="gpu", completionTime=at(500))
    ended = status_of(ref(), replace(seen, job=over), clock(9000))
    assert (ended.queued_seconds, ended.running_seconds(clock(9000))) == (190, 310)


def test_time_that_the_queue_took_back_for_good_is_counted_although_kueue_forgets_it() -> None:
    found = workload(condition("Evicted", after=160, reason=DUE_TO_TIME), active=False)
    found["spec"]["maximumExecutionTimeSeconds"] = 100
    status = status_of(ref(), Seen(job=WAITS, workload=found), clock(500))
    assert (status.held_before, status.queued_seconds, status.ended_at) == (100, 60, clock(160))


@pytest.mark.parametrize(
    ("cause", "category"),
    [
        ("MaximumExecutionTimeExceeded", FailureClass.TIMEOUT),
        ("RequeuingLimitExceeded", FailureClass.PLATFORM),
        ("AdmissionCheck", FailureClass.QUOTA),
        ("SomethingNew", FailureClass.QUOTA),
    ],
)
def test_run_that_the_queue_gives_up_fails_with_the_cause(cause: str, category: FailureClass) -> None:
    status = status_of(ref(), Seen(job=WAITS, workload=deactivated(cause)), clock(70))
    assert status.failure is not None
    assert status.failure.category is category
    assert status.failure.hint
    assert status.failure.events == ("told why",)
    assert not status.failure.transient


def test_run_that_contradicts_its_flavor_is_told_what_to_change() -> None:
    found = workload(condition("Finished", reason="FailedToStart", message="conflict for key: type"))
    status = status_of(ref(), Seen(job=WAITS, workload=found), clock(70))
    assert status.failure is not None
    assert "conflict for key: type" in status.failure.summary
    assert "node_selector" in status.failure.hint


def test_run_without_its_workload_takes_the_admission_from_the_jobs_own_start() -> None:
    job = pytorchjob(condition("Running", after=60), queue="gpu", startTime=at(45))
    status = status_of(ref(), Seen(job=job, pods=PODS, blind=frozenset({"workloads"})), clock(100))
    assert (status.admitted_at, status.queued_seconds) == (clock(45), 45)


def test_of_several_workloads_the_newest_unfinished_one_counts() -> None:
    old, new = workload(condition("Finished"), made=5), workload(made=1)
    assert newest_workload([old, new]) is new
    assert newest_workload([old]) is old
    assert newest_workload([]) is None


def slice_of(name: str, *conditions: Any, made: float, instead_of: str = "") -> Any:
    marks = {"kueue.x-k8s.io/workload-slice-replacement-for": f"team/{instead_of}"} if instead_of else {}
    found = workload(*conditions, made=made)
    found["metadata"] |= {"name": name, "annotations": marks}
    return found


GROWN = (
    slice_of("one", condition("Admitted", after=10), condition("Finished", after=60), made=1),
    slice_of("two", condition("Admitted", after=60), condition("Finished", after=80), made=59, instead_of="one"),
    slice_of("three", condition("Admitted", after=80), made=79, instead_of="two"),
)


def test_a_job_that_grew_was_in_the_queue_until_its_first_size_was_admitted() -> None:
    job = rayjob("Running", "RUNNING", queue="gpu")
    status = status_of(ref("RayJob"), Seen(job=job, workload=newest_workload(GROWN)), clock(100))
    assert status.queued_seconds == 10
    assert status.admitted_at == clock(10)


def test_a_job_that_waits_to_grow_is_in_the_cluster_with_the_size_that_it_has() -> None:
    more = slice_of("four", condition("QuotaReserved", False, reason="Pending"), made=90, instead_of="three")
    status = status_of(
        ref("RayJob"),
        Seen(job=rayjob("Running", "RUNNING", queue="gpu"), workload=newest_workload([*GROWN, more])),
        clock(100),
    )
    assert (status.phase, status.admitted_at, status.queued_seconds) == (Phase.RUNNING, clock(10), 10)


@pytest.mark.parametrize(
    ("reason", "in_cluster_since"), [("WorkloadSliceReplaced", clock(10)), ("OutOfSync", None)], ids=["grown", "lost"]
)
def test_a_size_that_is_to_be_admitted_is_in_the_cluster_if_it_replaces_one_that_was(
    reason: str, in_cluster_since: Any
) -> None:
    small = slice_of("one", condition("Admitted", after=10), condition("Finished", reason=reason), made=1)
    seen = Seen(
        job=rayjob("Running", "RUNNING", queue="gpu"),
        workload=newest_workload([small, slice_of("two", made=59, instead_of="one")]),
    )
    assert status_of(ref("RayJob"), seen, clock(60)).admitted_at == in_cluster_since


def test_a_job_that_grew_holds_the_accelerators_of_the_size_that_the_queue_admitted() -> None:
    grown = workload(condition("Admitted"))
    grown["spec"] = {"podSets": [{"name": "head", "count": 1}, {"name": "workers", "count": 5}]}
    job = rayjob("Running", "RUNNING", queue="gpu", workers=2)
    assert status_of(ref("RayJob"), Seen(job=job, workload=grown), clock(60)).gpus == 10
    assert status_of(ref("RayJob"), Seen(job=job), clock(60)).gpus == 4
