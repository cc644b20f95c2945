"""Each way in which a Ray job fails: the driver, the submitter, the head, a worker, a deadline."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import Failure, FailureClass, Phase, Status
from tests.unit.backends.kubernetes.state.objects import at, clock, ended, ray_pod, rayjob, ref

Class = FailureClass


def failure_of(status: Status) -> Failure:
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    return status.failure


DRIVER = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    "Traceback (most recent call last):\nModuleNotFoundError: No module named 'trainer'\n"
)


def ray_failure(*pods: dict[str, Any], seconds: float = 200, gone: tuple[Any, ...] = (), **status: Any) -> Failure:
    job = rayjob("Failed", endTime=at(100), **status)
    return failure_of(status_of(ref("RayJob"), Seen(job=job, pods=pods, gone_pods=gone), clock(seconds)))


def test_failed_driver_is_judged_by_rays_own_message() -> None:
    failure = ray_failure(job="FAILED", reason="AppFailed", message=DRIVER)
    assert (failure.category, failure.exit_code, failure.replica) == (Class.CODE, 1, "submitter-0")
    assert failure.last_lines[-1] == "ModuleNotFoundError: No module named 'trainer'"
    assert failure.summary == "the driver ended with exit code 1: ModuleNotFoundError: No module named 'trainer'"


def test_driver_that_was_killed_is_told_with_its_signal() -> None:
    failure = ray_failure(job="FAILED", reason="AppFailed", message="Job entrypoint command failed with exit code -9")
    assert failure.exit_code == 137
    assert "SIGKILL" in failure.summary


@pytest.mark.parametrize("where", ["pods", "gone"])
def test_ray_pod_that_ran_out_of_memory_is_the_cause_whatever_the_driver_says(where: str) -> None:
    worker = ray_pod("worker", "w-a", "Failed", main=ended(137, reason="OOMKilled"))
    pods = (worker,) if where == "pods" else ()
    failure = ray_failure(
        *pods, gone=() if pods else (worker,), job="FAILED", reason="AppFailed", message="Job failed: node died"
    )
    assert failure.category is Class.OUT_OF_MEMORY
    assert failure.replica is not None


def test_submitter_that_could_not_submit_is_named_with_its_end() -> None:
    failure = ray_failure(
        ray_pod("submitter", phase="Failed", main=ended(1)),
        reason="SubmissionFailed",
        message="Job submission has failed.",
    )
    assert (failure.replica, failure.exit_code) == ("submitter-0", 1)


def test_head_that_went_away_under_the_driver_is_the_cause_and_not_the_submitter_that_lost_it() -> None:
    submitter = ray_pod("submitter", phase="Failed", main=ended(1, after=98))
    deleted = ray_pod("head", deletion=125)
    deleted["metadata"]["deletionGracePeriodSeconds"] = 30
    for head in (ray_pod("head", "head-b", made=97), deleted):
        failure = ray_failure(submitter, head, reason="SubmissionFailed", rayJobInfo={"startTime": at(20)})
        assert (failure.replica, failure.category, failure.transient) == ("head-0", Class.NODE_LOST, True)
    cleaned = ray_pod("head", deletion=131)
    cleaned["metadata"]["deletionGracePeriodSeconds"] = 30
    failure = ray_failure(submitter, cleaned, reason="SubmissionFailed", rayJobInfo={"startTime": at(20)})
    assert failure.replica == "submitter-0"


def test_submission_that_failed_without_a_pod_is_told_in_kuberays_words() -> None:
    failure = ray_failure(reason="SubmissionFailed", message="Job submission has failed. Reason: BackoffLimitExceeded.")
    assert "BackoffLimitExceeded" in failure.summary


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "PreRunningDeadlineExceeded"])
def test_deadline_of_the_cluster_is_a_timeout(reason: str) -> None:
    failure = ray_failure(reason=reason, message="The RayJob has passed the deadline.", job="RUNNING")
    assert failure.category is Class.TIMEOUT
    assert not failure.transient


def test_job_that_kuberay_refuses_says_why_at_once() -> None:
    job = rayjob("ValidationFailed", reason="ValidationFailed", message="rayStartParams: labels is not allowed")
    failure = failure_of(status_of(ref("RayJob"), Seen(job=job), clock(3)))
    assert failure.category is Class.PLATFORM
    assert "labels is not allowed" in failure.summary
