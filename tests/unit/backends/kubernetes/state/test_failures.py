"""Each way in which a run fails on Kubernetes: its class, the replica that failed first, and whether a retry helps."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import Failure, FailureClass, Phase, Status
from tests.unit.backends.kubernetes.state.objects import (
    at,
    clock,
    condition,
    ended,
    event,
    pod,
    pytorchjob,
    ref,
)

Class = FailureClass
BROKEN = pytorchjob(
    condition("Failed", after=100, message="PyTorchJob bert is failed because 1 Worker replica(s) failed."),
    completionTime=at(100),
)
MASTER, OTHER = pod("master-0"), pod("worker-0")


def disrupted(reason: str) -> Any:
    return condition("DisruptionTarget", after=99, reason=reason, message="told why")


def failed(**fields: Any) -> dict[str, Any]:
    return pod("worker-1", "Failed", node="node-3", **fields)


ROWS: dict[str, tuple[dict[str, Any], FailureClass, bool, str]] = {
    "wrong code": (failed(main=ended(1)), Class.CODE, False, "ended with exit code 1"),
    "no such command": (failed(main=ended(127)), Class.CODE, False, "the command was not found"),
    "crash in native code": (failed(main=ended(139)), Class.CODE, True, "SIGSEGV"),
    "killed from outside": (failed(main=ended(137)), Class.PLATFORM, True, "SIGKILL"),
    "out of memory": (failed(main=ended(137, reason="OOMKilled")), Class.OUT_OF_MEMORY, False, "memory ran out"),
    "no program in the image": (
        failed(main=ended(128, reason="StartError", message='exec: "bash": executable file not found in $PATH')),
        Class.CODE,
        False,
        "executable file not found",
    ),
    "evicted by its node": (
        failed(main=ended(137), reason="Evicted", message="The node was low on resource: memory."),
        Class.NODE_LOST,
        True,
        "low on resource: memory",
    ),
    "wrote too much": (
        failed(main=ended(137), reason="Evicted", message='Usage of EmptyDir volume "dshm" exceeds the limit "8Gi".'),
        Class.DATA_PATH,
        False,
        "dshm",
    ),
    "node shut down": (
        failed(main=ended(143), reason="Terminated", message="Pod was terminated in response to node shutdown."),
        Class.NODE_LOST,
        True,
        "node shutdown",
    ),
    "node lost": (
        failed(conditions=[disrupted("DeletionByTaintManager")]),
        Class.NODE_LOST,
        True,
        "not ready",
    ),
    "node gone": (failed(conditions=[disrupted("DeletionByPodGC")]), Class.NODE_LOST, True, "node is gone"),
    "node drained": (
        failed(main=ended(143), conditions=[disrupted("EvictionByEvictionAPI")]),
        Class.NODE_LOST,
        True,
        "drained",
    ),
    "preempted by the scheduler": (
        failed(main=ended(143), conditions=[disrupted("PreemptionByScheduler")]),
        Class.PREEMPTED,
        True,
        "higher priority",
    ),
    "the node lost track of it": (
        failed(main=ended(137, reason="ContainerStatusUnknown", message="could not be located")),
        Class.NODE_LOST,
        True,
        "could not be located",
    ),
    "refused by its node": (
        failed(reason="OutOfcpu", message="Node didn't have enough resource: cpu"),
        Class.PLATFORM,
        True,
        "enough resource: cpu",
    ),
    "longer than its pod may": (
        failed(main=ended(143), reason="DeadlineExceeded", message="Pod was active on the node too long"),
        Class.TIMEOUT,
        False,
        "too long",
    ),
    "an init container": (
        failed(init=[{"name": "init-pytorch", "state": ended(2)}]),
        Class.CODE,
        False,
        "container init-pytorch ended with exit code 2",
    ),
}  # fmt: skip


def failure_of(status: Status) -> Failure:
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    return status.failure


@pytest.mark.parametrize(("dead", "category", "transient", "text"), ROWS.values(), ids=ROWS.keys())
def test_failed_pod_is_classed_by_what_the_cluster_says_of_it(
    dead: dict[str, Any], category: FailureClass, transient: bool, text: str
) -> None:
    failure = failure_of(status_of(ref(), Seen(job=BROKEN, pods=(MASTER, OTHER, dead)), clock(200)))
    assert (failure.category, failure.transient) == (category, transient)
    assert text in failure.summary
    assert failure.summary.startswith("worker-1 (rank 2) on node-3 ")
    assert (failure.replica, failure.rank) == ("worker-1", 2)
    assert failure.hint


def test_first_rank_that_failed_is_named_and_not_its_victims() -> None:
    seen = Seen(
        job=BROKEN,
        pods=(
            pod("master-0", "Failed", main=ended(1, after=99)),
            pod("worker-0", "Failed", main=ended(137, after=98)),
            pod("worker-1", "Failed", main=ended(1, after=98)),
        ),
    )
    assert failure_of(status_of(ref(), seen, clock(200))).replica == "worker-1"


def test_end_of_a_pod_that_is_deleted_already_is_remembered() -> None:
    dead = pod("worker-1", "Failed", main=ended(3))
    failure = failure_of(status_of(ref(), Seen(job=BROKEN, gone_pods=(MASTER, OTHER, dead)), clock(200)))
    assert (failure.replica, failure.exit_code) == ("worker-1", 3)


def test_pods_of_an_earlier_stay_are_no_evidence() -> None:
    job = pytorchjob(condition("Failed", after=300, message="1 Worker replica(s) failed"), queue="gpu")
    put_out = pod("worker-1", "Failed", made=20, main=ended(143, after=100))
    found = {"metadata": {}, "status": {"conditions": [condition("Admitted", after=200)]}}
    seen = Seen(job=job, workload=found, gone_pods=(put_out,), pods=(pod("master-0", made=205),))
    failure = failure_of(status_of(ref(), seen, clock(400)))
    assert failure.replica is None
    assert "1 Worker replica(s) failed" in failure.summary


def test_pod_that_somebody_deleted_while_it_ran_is_named_and_not_those_that_the_operator_deleted_then() -> None:
    job = {**BROKEN, "status": {**BROKEN["status"], "replicaStatuses": {"Worker": {"failed": 1}}}}
    pods = (MASTER, pod("worker-0", deletion=130), pod("worker-1", deletion=110))
    for each in pods[1:]:
        each["metadata"]["deletionGracePeriodSeconds"] = 30
    by_time = failure_of(status_of(ref(), Seen(job=job, pods=pods), clock(200)))
    assert by_time.summary == "worker-1 (rank 2) failed: its pod on node-1 was deleted by somebody while it ran"
    assert not by_time.transient
    told = event(job, "SuccessfulDeletePod", "Deleted pod: bert-3f9c1a7-worker-0", warning=False)
    by_event = failure_of(status_of(ref(), Seen(job=job, pods=(MASTER,), events=(told,)), clock(200)))
    assert by_event.replica == "worker-1"
    neither = failure_of(status_of(ref(), Seen(job=job, pods=(MASTER,)), clock(200)))
    assert neither.replica is None


def test_replicas_that_went_with_their_node_in_one_moment_are_a_lost_node() -> None:
    lost = [disrupted("DeletionByTaintManager")]
    pods = tuple(pod(name, deletion=100, conditions=lost) for name in ("master-0", "worker-0"))
    said = condition("Failed", after=100, message="1 Master replica(s) failed.")
    job = pytorchjob(said, workers=1, replicaStatuses={"Master": {"failed": 1}, "Worker": {"failed": 1}})
    failure = status_of(ref(), Seen(job=job, pods=pods), clock(120)).failure
    assert failure is not None
    assert (failure.category, failure.replica, failure.transient) == (Class.NODE_LOST, "master-0", True)
    assert failure.summary.startswith("master-0 (rank 0) on node-1 failed: Node lost: ")


def test_pod_that_was_drained_while_it_ran_is_a_lost_node() -> None:
    job = {**BROKEN, "status": {**BROKEN["status"], "replicaStatuses": {"Master": {"failed": 1}}}}
    drained = pod("master-0", deletion=130, conditions=[disrupted("EvictionByEvictionAPI")])
    failure = failure_of(status_of(ref(), Seen(job=job, pods=(drained, OTHER)), clock(200)))
    assert (failure.replica, failure.category, failure.transient) == ("master-0", Class.NODE_LOST, True)


def left(replica: str, *, told: float, ended_after: float | None = None) -> Any:
    """Return a pod that was told to leave then, and ended by SIGTERM later, or runs on."""
    gone: dict[str, Any] = {} if ended_after is None else {"phase": "Failed", "main": ended(143, after=ended_after)}
    found = pod(replica, deletion=told + 30, **gone)
    found["metadata"]["deletionGracePeriodSeconds"] = 30
    return found


def test_replica_whose_pod_was_deleted_is_named_though_those_that_the_operator_put_out_then_are_gone_first() -> None:
    job = {**BROKEN, "status": {**BROKEN["status"], "replicaStatuses": {"Master": {"failed": 1}}}}
    pods = (left("master-0", told=99), left("worker-0", told=100, ended_after=101))
    failure = failure_of(status_of(ref(), Seen(job=job, pods=pods), clock(102)))
    assert failure.replica == "master-0"
    assert "deleted by somebody while it ran" in failure.summary


def test_replica_whose_pod_was_deleted_is_named_when_it_has_ended_too() -> None:
    job = {**BROKEN, "status": {**BROKEN["status"], "replicaStatuses": {"Worker": {"failed": 1}}}}
    pods = (MASTER, left("worker-0", told=98, ended_after=100), left("worker-1", told=100, ended_after=100))
    failure = failure_of(status_of(ref(), Seen(job=job, pods=pods), clock(102)))
    assert failure.replica == "worker-0"
    assert "deleted by somebody while it ran" in failure.summary


def test_end_waits_a_moment_for_the_pod_that_explains_it() -> None:
    seen = Seen(job=BROKEN, pods=(MASTER, OTHER, pod("worker-1")))
    assert status_of(ref(), seen, clock(102)).phase is Phase.RUNNING
    assert "Worker replica(s) failed" in failure_of(status_of(ref(), seen, clock(106))).summary


def test_success_is_the_masters_and_names_who_was_cut_off() -> None:
    job = pytorchjob(condition("Succeeded", after=100), completionTime=at(100))
    master, worker = pod("master-0", "Succeeded", main=ended()), pod("worker-1", "Succeeded", main=ended())
    status = status_of(ref(), Seen(job=job, pods=(master, pod("worker-0", deletion=131), worker)), clock(101))
    assert status.phase is Phase.SUCCEEDED
    assert status.reason == "the master ended with 0; cut off by that: worker-0 (rank 1)"
    assert [each.phase for each in status.replicas] == [Phase.SUCCEEDED, Phase.STOPPED, Phase.SUCCEEDED]
    still = Seen(job=job, pods=(master, OTHER, worker))
    assert status_of(ref(), still, clock(102)).phase is Phase.RUNNING
    assert "worker-0" in status_of(ref(), still, clock(106)).reason
    assert status_of(ref(), Seen(job=job, pods=(master,)), clock(106)).reason == ""


def test_rank_on_a_dead_node_ends_the_run_although_the_operator_says_running() -> None:
    job = pytorchjob(condition("Running", after=8))
    stuck = pod("worker-1", node="node-3", deletion=400, conditions=[condition("Ready", False, reason="NodeNotReady")])
    seen = Seen(job=job, pods=(MASTER, OTHER, stuck))
    early = status_of(ref(), seen, clock(500))
    assert early.phase is Phase.RUNNING
    assert early.replicas[2].reason == "its node node-3 does not answer"
    late = status_of(ref(), seen, clock(521))
    failure = failure_of(late)
    assert (failure.category, failure.transient, late.leftover) == (Class.NODE_LOST, True, True)
    assert "worker-1 (rank 2) on node-3" in failure.summary
    assert late.ended_at == clock(400)


def test_pod_that_ended_and_hangs_in_its_deletion_ends_the_run() -> None:
    job = pytorchjob(condition("Restarting", after=100))
    hangs = pod("worker-1", "Failed", main=ended(1, after=100), deletion=130)
    late = status_of(ref(), Seen(job=job, pods=(MASTER, OTHER, hangs)), clock(300))
    assert (failure_of(late).exit_code, late.leftover) == (1, True)


def test_warnings_around_the_failure_are_its_evidence() -> None:
    dead = pod("worker-1", "Failed", main=ended(1))
    events = (event(dead, "FailedMount", 'MountVolume.SetUp failed for volume "data" : timed out'),)
    failure = failure_of(status_of(ref(), Seen(job=BROKEN, pods=(dead,), events=events), clock(200)))
    assert failure.events == ('worker-1: FailedMount: MountVolume.SetUp failed for volume "data" : timed out',)
