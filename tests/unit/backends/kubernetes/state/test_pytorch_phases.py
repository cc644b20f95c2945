"""Each state that a PyTorchJob can show, and the phase that people see."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import FailureClass, Phase
from tests.unit.backends.kubernetes.state.objects import (
    at,
    clock,
    condition,
    ended,
    event,
    pod,
    pytorchjob,
    ref,
    waiting,
)

CREATED = condition("Created", after=0)
RUNNING = condition("Running", after=8)
DONE = condition("Succeeded", after=100)
BROKEN = condition("Failed", after=100, message="PyTorchJob bert is failed because 1 Worker replica(s) failed.")
GOING = {"deletionTimestamp": at(50)}
STOP_MARK = {"annotations": {"siflow-provider/stopped-by": "ana"}}
ALL = tuple(pod(name) for name in ("master-0", "worker-0", "worker-1"))

ROWS: dict[str, tuple[Seen, Phase]] = {
    "nothing is left": (Seen(), Phase.LOST),
    "being deleted by us": (Seen(job=pytorchjob(RUNNING, meta={**STOP_MARK, **GOING})), Phase.STOPPED),
    "being deleted by others": (Seen(job=pytorchjob(RUNNING, meta=GOING)), Phase.LOST),
    "deleted by us": (Seen(gone=pytorchjob(RUNNING, meta=STOP_MARK)), Phase.STOPPED),
    "deleted by others": (Seen(gone=pytorchjob(RUNNING)), Phase.LOST),
    "deleted after success": (Seen(gone=pytorchjob(DONE, meta=STOP_MARK)), Phase.SUCCEEDED),
    "deleted after failure": (Seen(gone=pytorchjob(BROKEN)), Phase.FAILED),
    "failed": (Seen(job=pytorchjob(BROKEN)), Phase.FAILED),
    "succeeded": (Seen(job=pytorchjob(DONE)), Phase.SUCCEEDED),
    "restarting": (Seen(job=pytorchjob(condition("Restarting"))), Phase.RETRYING),
    "a worker is still to come": (Seen(job=pytorchjob(RUNNING), pods=ALL[:2]), Phase.STARTING),
    "a worker starts": (Seen(job=pytorchjob(RUNNING), pods=(*ALL[:2], pod("worker-1", "Pending"))), Phase.STARTING),
    "all run": (Seen(job=pytorchjob(CREATED, RUNNING), pods=ALL), Phase.RUNNING),
    "pods can't be read": (Seen(job=pytorchjob(RUNNING), blind=frozenset({"pods"})), Phase.RUNNING),
    "a worker failed and the operator has yet to say so": (
        Seen(job=pytorchjob(RUNNING), pods=(*ALL[:2], pod("worker-1", "Failed", main=ended(1)))),
        Phase.RUNNING,
    ),
    "a failed worker's pod is gone before the operator says so": (
        Seen(job=pytorchjob(RUNNING), pods=(pod("master-0", "Succeeded", main=ended()), ALL[1])),
        Phase.RUNNING,
    ),
    "created": (Seen(job=pytorchjob(CREATED)), Phase.STARTING),
    "no status yet": (Seen(job=pytorchjob()), Phase.STARTING),
    "resumed and not running yet": (Seen(job=pytorchjob(condition("Suspended"))), Phase.STARTING),
    "suspended by hand without a queue": (Seen(job=pytorchjob(suspend=True)), Phase.QUEUED),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "phase"), ROWS.values(), ids=ROWS.keys())
def test_phase_of_a_pytorchjob(seen: Seen, phase: Phase) -> None:
    assert status_of(ref(), seen, clock(1000)).phase is phase


def test_an_object_of_the_same_name_and_another_uid_is_not_the_run() -> None:
    other: dict[str, Any] = pytorchjob(RUNNING, meta={})
    other["metadata"]["uid"] = "another"
    status = status_of(ref(), Seen(job=other), clock(20))
    assert status.phase is Phase.LOST
    assert "another one of the same name" in status.reason
    assert status.failure is not None
    assert status.failure.category is FailureClass.LOST


def test_running_run_tells_replicas_times_and_gpus() -> None:
    status = status_of(ref(), Seen(job=pytorchjob(RUNNING), pods=ALL), clock(60))
    assert [(each.name, each.rank, each.node, each.phase) for each in status.replicas] == [
        ("master-0", 0, "node-1", Phase.RUNNING),
        ("worker-0", 1, "node-1", Phase.RUNNING),
        ("worker-1", 2, "node-1", Phase.RUNNING),
    ]
    assert (status.submitted_at, status.admitted_at, status.running_at) == (clock(0), clock(0), clock(6))
    assert (status.gpus, status.queued_seconds, status.queue) == (3, 0, None)


def test_job_that_no_controller_takes_says_so_and_stays_starting() -> None:
    status = status_of(ref(), Seen(job=pytorchjob()), clock(3600))
    assert status.phase is Phase.STARTING
    assert "the training operator has not taken the job" in status.reason


def test_invalid_image_name_fails_fast_and_is_to_be_removed() -> None:
    bad = pod("worker-0", "Pending", main=waiting("InvalidImageName", 'couldn\'t parse image name "a b"'))
    status = status_of(ref(), Seen(job=pytorchjob(CREATED), pods=(ALL[0], bad)), clock(10))
    assert status.phase is Phase.FAILED
    assert status.leftover
    assert status.failure is not None
    assert status.failure.category is FailureClass.IMAGE
    assert not status.failure.transient


def test_failed_pulls_are_counted_for_the_worst_pod() -> None:
    one = pod("worker-0", "Pending", main=waiting("ImagePullBackOff"))
    two = pod("worker-1", "Pending", main=waiting("ErrImagePull"))
    events = (
        event(two, "Failed", 'Failed to pull image "img": not found', count=3),
        event(two, "Failed", "Error: ErrImagePull", count=3),
        event(two, "Failed", 'Failed to pull image "img": timeout', count=1),
    )
    assert status_of(ref(), Seen(job=pytorchjob(CREATED), pods=(one,)), clock(10)).failed_pulls == 1
    assert status_of(ref(), Seen(job=pytorchjob(CREATED), pods=(one, two), events=events), clock(10)).failed_pulls == 4


def test_failed_pull_counts_once_the_replica_is_seen_to_wait_for_its_image() -> None:
    making = pod("worker-1", "Pending", main=waiting("ContainerCreating"))
    events = (event(making, "Failed", 'Failed to pull image "img": not found', count=3),)
    assert status_of(ref(), Seen(job=pytorchjob(CREATED), pods=(making,), events=events), clock(10)).failed_pulls == 0
