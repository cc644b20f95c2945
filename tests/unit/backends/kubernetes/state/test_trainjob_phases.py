"""Each state that a TrainJob can show, and the phase that people see."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import FailureClass, Phase
from tests.unit.backends.kubernetes.state.objects import (
    NAME,
    RUN,
    clock,
    condition,
    ended,
    event,
    metadata,
    pod,
    ref,
    workload,
)

RESUMED = condition("Suspended", False, after=6, reason="Resumed")
DONE = condition("Complete", after=100, reason="AllJobsCompleted")
BROKEN = condition("Failed", after=100, reason="FailedJobs", message="jobset failed due to one or more job failures")
REF = ref().model_copy(update={"api": "TrainJob"})


def trainjob(*conditions: Any, suspend: bool = False, queue: str = "", **status: Any) -> dict[str, Any]:
    labels = {**RUN, **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
    size = {"limits": {"nvidia.com/gpu": "2"}}
    return {
        "kind": "TrainJob",
        "metadata": metadata(NAME, "job-uid", 0, labels=labels),
        "spec": {"suspend": suspend, "trainer": {"numNodes": 3, "resourcesPerNode": size}},
        "status": {"conditions": list(conditions), **status},
    }


def rank(number: int, phase: str = "Running", **fields: Any) -> dict[str, Any]:
    made = pod("worker-0", phase, **fields)
    labels = {**RUN, "batch.kubernetes.io/job-completion-index": str(number)}
    name = f"{NAME}-pod-0-{number}-x1y2z"
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": f"pod-{number}", "labels": labels}}


RANKS = tuple(rank(number) for number in range(3))
ROWS: dict[str, tuple[Seen, Phase]] = {
    "nobody has taken it": (Seen(job=trainjob()), Phase.STARTING),
    "suspended by hand": (Seen(job=trainjob(suspend=True)), Phase.QUEUED),
    "in its queue": (Seen(job=trainjob(suspend=True, queue="q"), workload=workload()), Phase.QUEUED),
    "admitted": (
        Seen(job=trainjob(suspend=True, queue="q"), workload=workload(condition("Admitted"))),
        Phase.STARTING,
    ),
    "a rank is still to come": (Seen(job=trainjob(RESUMED), pods=RANKS[:2]), Phase.STARTING),
    "all run": (Seen(job=trainjob(RESUMED), pods=RANKS), Phase.RUNNING),
    "all run and can't be seen": (
        Seen(job=trainjob(RESUMED, jobsStatus=[{"name": "pod", "ready": 1}]), blind=frozenset({"pods"})),
        Phase.RUNNING,
    ),
    "not all run and none can be seen": (
        Seen(job=trainjob(RESUMED, jobsStatus=[{"name": "pod", "ready": 0}]), blind=frozenset({"pods"})),
        Phase.STARTING,
    ),
    "succeeded": (Seen(job=trainjob(DONE)), Phase.SUCCEEDED),
    "failed": (Seen(job=trainjob(BROKEN)), Phase.FAILED),
    "deleted after success": (Seen(gone=trainjob(DONE)), Phase.SUCCEEDED),
    "deleted by others": (Seen(gone=trainjob(RESUMED)), Phase.LOST),
}


@pytest.mark.parametrize("row", ROWS)
def test_phase(row: str) -> None:
    seen, phase = ROWS[row]
    assert status_of(REF, seen, clock(200)).phase is phase


def test_ranks_have_the_names_of_a_pytorchjobs_replicas() -> None:
    status = status_of(REF, Seen(job=trainjob(RESUMED), pods=RANKS), clock(50))
    assert [(each.name, each.rank) for each in status.replicas] == [("master-0", 0), ("worker-0", 1), ("worker-1", 2)]
    assert status.gpus == 6


def test_the_rank_that_failed_is_named() -> None:
    pods = (RANKS[0], rank(1, "Failed", main=ended(7)), RANKS[2])
    status = status_of(REF, Seen(job=trainjob(BROKEN), pods=pods), clock(200))
    assert status.failure is not None
    assert (status.failure.replica, status.failure.exit_code) == ("worker-0", 7)
    assert status.failure.category is FailureClass.CODE


def test_no_pod_is_called_deleted_where_pods_may_not_be_seen() -> None:
    job = trainjob(BROKEN)
    job["spec"]["trainer"]["numNodes"] = 1
    status = status_of(REF, Seen(job=job, blind=frozenset({"pods"})), clock(200))
    assert status.failure is not None
    assert status.failure.replica is None
    assert "jobset failed due to one or more job failures" in status.failure.summary


def test_ranks_that_were_cut_off_by_the_success_of_rank_0_are_named() -> None:
    pods = (rank(0, "Succeeded", main=ended(0)), rank(1, "Succeeded", main=ended(0)), RANKS[2])
    status = status_of(REF, Seen(job=trainjob(DONE), pods=pods), clock(200))
    assert status.reason == "the master ended with 0; cut off by that: worker-1 (rank 2)"


def test_why_trainer_can_not_make_the_pods_is_told() -> None:
    words = 'admission webhook "vjobset.kb.io" denied the request: too long'
    told = event(trainjob(), "TrainJobResourcesCreationFailed", words)
    status = status_of(REF, Seen(job=trainjob(RESUMED), events=(told,)), clock(90))
    assert words in status.reason


def test_a_trainjob_that_nobody_takes_names_kubeflow_trainer() -> None:
    job = {key: value for key, value in trainjob().items() if key != "status"}
    assert status_of(REF, Seen(job=job), clock(90)).reason.startswith("Kubeflow Trainer has not taken the job")


def test_a_job_that_is_gone_is_called_what_it_was() -> None:
    assert "its TrainJob was deleted by somebody else" in status_of(REF, Seen(gone=trainjob()), clock(90)).reason
