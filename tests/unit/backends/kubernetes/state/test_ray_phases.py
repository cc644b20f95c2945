"""Each state that a RayJob can show, and the phase that people see."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import changes_by_time, status_of
from siflow_provider.core.status import Phase
from tests.unit.backends.kubernetes.state.objects import (
    NAME,
    at,
    clock,
    condition,
    ended,
    metadata,
    ray_pod,
    rayjob,
    ref,
)

GOING = {"deletionTimestamp": at(50)}
STOP_MARK: Any = {"annotations": {"siflow-provider/stopped-by": "ana"}}
END: Any = {"endTime": at(100)}
BEGAN: Any = {"rayJobInfo": {"startTime": at(20)}}
ALL = (ray_pod("submitter"), ray_pod("head"), ray_pod("worker", "w-a"), ray_pod("worker", "w-b", made=6))

ROWS: dict[str, tuple[Seen, Phase]] = {
    "nothing is left": (Seen(), Phase.LOST),
    "being deleted by us": (Seen(job=rayjob("Running", "RUNNING", meta={**STOP_MARK, **GOING})), Phase.STOPPED),
    "being deleted by others": (Seen(job=rayjob("Running", "RUNNING", meta=GOING)), Phase.LOST),
    "deleted after success": (Seen(gone=rayjob("Complete", "SUCCEEDED", meta=STOP_MARK, **END)), Phase.SUCCEEDED),
    "refused by KubeRay": (Seen(job=rayjob("ValidationFailed", message="bad")), Phase.FAILED),
    "failed": (Seen(job=rayjob("Failed", "FAILED", reason="AppFailed", **END)), Phase.FAILED),
    "failed while the job seems to run": (
        Seen(job=rayjob("Failed", "RUNNING", reason="DeadlineExceeded", **END)),
        Phase.FAILED,
    ),
    "succeeded": (Seen(job=rayjob("Complete", "SUCCEEDED", **END)), Phase.SUCCEEDED),
    "stopped in Ray": (Seen(job=rayjob("Complete", "STOPPED", **END)), Phase.STOPPED),
    "complete and failed": (Seen(job=rayjob("Complete", "FAILED", **END)), Phase.FAILED),
    "complete without a word": (Seen(job=rayjob("Complete", "", **END)), Phase.UNKNOWN),
    "retrying": (Seen(job=rayjob("Retrying")), Phase.RETRYING),
    "suspended by hand without a queue": (Seen(job=rayjob("Suspended", suspend=True)), Phase.QUEUED),
    "new": (Seen(job=rayjob()), Phase.STARTING),
    "initializing": (Seen(job=rayjob("Initializing")), Phase.STARTING),
    "initializing after a failure": (Seen(job=rayjob("Initializing", failed=1)), Phase.RETRYING),
    "waiting": (Seen(job=rayjob("Waiting")), Phase.STARTING),
    "submitting": (Seen(job=rayjob("Running"), pods=ALL), Phase.STARTING),
    "pending": (Seen(job=rayjob("Running", "PENDING"), pods=ALL), Phase.STARTING),
    "running": (Seen(job=rayjob("Running", "RUNNING", **BEGAN), pods=ALL), Phase.RUNNING),
    "driver ended, submitter not": (Seen(job=rayjob("Running", "SUCCEEDED", **BEGAN), pods=ALL), Phase.RUNNING),
    "a word of a later KubeRay": (Seen(job=rayjob("Hibernating")), Phase.UNKNOWN),
}


@pytest.mark.parametrize(("seen", "phase"), ROWS.values(), ids=ROWS.keys())
def test_phase_of_a_rayjob(seen: Seen, phase: Phase) -> None:
    assert status_of(ref("RayJob"), seen, clock(1000)).phase is phase


@pytest.mark.parametrize("deployment", ["", "Initializing", "Suspending", "Suspended"])
def test_first_walk_of_a_suspended_job_is_shown_as_queued(deployment: str) -> None:
    job = rayjob(deployment, queue="gpu", suspend=True)
    assert status_of(ref("RayJob"), Seen(job=job), clock(2)).phase is Phase.QUEUED


def test_running_run_tells_replicas_times_and_gpus() -> None:
    cluster = {
        "kind": "RayCluster",
        "metadata": metadata(f"{NAME}-abcde", "cluster-uid", 3),
        "status": {"conditions": [condition("RayClusterProvisioned", after=15)]},
    }
    old = ray_pod("worker", "old", cluster=f"{NAME}-xyzzy", made=1)
    job = rayjob("Running", "RUNNING", dashboardURL=f"{NAME}-head-svc.team.svc.cluster.local:8265", **BEGAN)
    status = status_of(ref("RayJob"), Seen(job=job, pods=(old, *ALL), clusters=(cluster,)), clock(60))
    assert [each.name for each in status.replicas] == ["submitter-0", "head-0", "worker-0", "worker-1"]
    assert {each.phase for each in status.replicas} == {Phase.RUNNING}
    assert status.running_at == clock(20)
    assert status.gpus == 4
    assert status.links["dashboard"].startswith("http://bert-3f9c1a7-head-svc")


def test_submission_says_whether_its_pod_is_there() -> None:
    there = status_of(ref("RayJob"), Seen(job=rayjob("Running"), pods=ALL), clock(20))
    missing = status_of(ref("RayJob"), Seen(job=rayjob("Running"), pods=ALL[1:]), clock(20))
    assert there.reason == "the driver is being submitted to the cluster"
    assert missing.reason == "the cluster is ready, and the submitter's pod is still to be made"


def test_workers_keep_their_numbers_while_they_come_and_go_behind_them() -> None:
    first = status_of(ref("RayJob"), Seen(job=rayjob("Initializing"), pods=ALL[1:3]), clock(10))
    later = status_of(ref("RayJob"), Seen(job=rayjob("Initializing"), pods=ALL), clock(12))
    assert [(each.name, each.phase) for each in first.replicas[2:]] == [
        ("worker-0", Phase.RUNNING),
        ("worker-1", Phase.STARTING),
    ]
    assert [(each.name, each.phase) for each in later.replicas[2:]] == [
        ("worker-0", Phase.RUNNING),
        ("worker-1", Phase.RUNNING),
    ]


def head_of(made: float) -> Seen:
    job = rayjob("Running", "RUNNING", **BEGAN)
    return Seen(job=job, pods=(ALL[0], ray_pod("head", "head-b", made=made), *ALL[2:]))


def test_job_whose_head_was_replaced_fails_after_a_bound_although_kuberay_says_running() -> None:
    early = status_of(ref("RayJob"), head_of(made=100), clock(150))
    assert early.phase is Phase.RUNNING
    late = status_of(ref("RayJob"), head_of(made=100), clock(221))
    assert late.phase is Phase.FAILED
    assert late.leftover
    assert late.failure is not None
    assert (late.failure.category, late.failure.replica, late.failure.transient) == ("node-lost", "head-0", True)
    assert "KubeRay still says Running" in late.reason


def test_head_that_is_as_old_as_the_job_is_no_loss() -> None:
    assert status_of(ref("RayJob"), head_of(made=5), clock(100000)).phase is Phase.RUNNING


def test_job_without_a_head_fails_after_a_bound() -> None:
    cluster = {
        "kind": "RayCluster",
        "metadata": metadata(f"{NAME}-abcde", "cluster-uid", 3),
        "status": {"conditions": [condition("HeadPodReady", False, after=100, reason="HeadPodNotFound")]},
    }
    seen = Seen(job=rayjob("Running", "RUNNING", **BEGAN), pods=(ALL[0], *ALL[2:]), clusters=(cluster,))
    assert status_of(ref("RayJob"), seen, clock(150)).phase is Phase.RUNNING
    late = status_of(ref("RayJob"), seen, clock(230))
    assert late.phase is Phase.FAILED
    assert "head-0" in late.reason


def test_job_whose_submitter_is_gone_fails_after_a_bound() -> None:
    seen = Seen(job=rayjob("Running", "RUNNING", **BEGAN), pods=ALL[1:])
    assert status_of(ref("RayJob"), seen, clock(100)).phase is Phase.RUNNING
    late = status_of(ref("RayJob"), seen, clock(150))
    assert late.phase is Phase.FAILED
    assert late.failure is not None
    assert late.failure.replica == "submitter-0"
    assert "never hears of the job's end" in late.reason


def test_submitter_that_failed_and_that_kuberay_does_not_tell_of_ends_the_run() -> None:
    dead = ray_pod("submitter", phase="Failed", main=ended(1, after=100))
    seen = Seen(job=rayjob("Running", "RUNNING", **BEGAN), pods=(dead, *ALL[1:]))
    assert status_of(ref("RayJob"), seen, clock(150)).phase is Phase.RUNNING
    late = status_of(ref("RayJob"), seen, clock(230))
    assert (late.phase, late.leftover) == (Phase.FAILED, True)
    assert "submitter-0" in late.reason


def test_pods_that_can_not_be_read_prove_nothing() -> None:
    seen = Seen(job=rayjob("Running", "RUNNING", **BEGAN), blind=frozenset({"pods"}))
    assert status_of(ref("RayJob"), seen, clock(100000)).phase is Phase.RUNNING


def test_running_run_is_looked_at_again_only_where_time_may_end_it() -> None:
    job = rayjob("Running", "RUNNING", **BEGAN)
    whole, replaced = Seen(job=job, pods=ALL), head_of(made=100)
    without = Seen(job=job, pods=ALL[1:])
    leaving = Seen(job=job, pods=(*ALL[:3], ray_pod("worker", "w-b", made=6, deletion=90)))
    found = [changes_by_time(ref("RayJob"), seen, clock(110)) for seen in (whole, replaced, without, leaving, Seen())]
    assert found == [False, True, True, True, False]
