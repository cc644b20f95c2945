"""Why a replica waits, in words that say what to do about it."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.status import Event, Phase
from tests.unit.backends.kubernetes.state.objects import (
    NAME,
    clock,
    condition,
    event,
    metadata,
    pod,
    pytorchjob,
    ray_pod,
    rayjob,
    ref,
    waiting,
)

CREATED = pytorchjob(condition("Created"), workers=1)
MASTER = pod("master-0")
TAIL = " no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."


def unscheduled(message: str) -> dict[str, Any]:
    scheduled = condition("PodScheduled", False, reason="Unschedulable", message=message)
    return pod("worker-0", "Pending", node=None, conditions=[scheduled])


def reason_of(*pods: dict[str, Any], events: tuple[Any, ...] = (), job: Any = CREATED) -> str:
    status = status_of(ref(job["kind"]), Seen(job=job, pods=pods, events=events), clock(30))
    assert status.phase is Phase.STARTING
    return next(each.reason for each in status.replicas if each.name == "worker-0")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "0/5 nodes are available: 1 Insufficient cpu, 3 Insufficient nvidia.com/gpu, 2 node(s) didn't match "
            "Pod's node affinity/selector." + TAIL,
            "no node can take it: cpu is short on 1 of 5 nodes; nvidia.com/gpu is short on 3 of 5 nodes; "
            "2 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint(s). preemption: no victims",
            "no node can take it: 2 node(s) had untolerated taint(s)",
        ),
        ("0/5 nodes are available: 5 Insufficient nvidia.com/gpu." + TAIL,
         "no node can take it: nvidia.com/gpu is short on 5 of 5 nodes"),
        ('persistentvolumeclaim "data" not found', 'persistentvolumeclaim "data" not found'),
    ],
)  # fmt: skip
def test_pod_without_a_node_says_which_resource_is_short_on_how_many(message: str, text: str) -> None:
    assert reason_of(MASTER, unscheduled(message)) == text


STATES: dict[str, tuple[Any, str]] = {
    "image that is not there": (
        waiting("ErrImagePull", "failed to resolve reference: not found"),
        "ErrImagePull: the image img can't be pulled: failed to resolve reference: not found",
    ),
    "image again": (waiting("ImagePullBackOff"), "ImagePullBackOff: the image img can't be pulled"),
    "missing secret": (
        waiting("CreateContainerConfigError", 'secret "bert-env" not found'),
        'CreateContainerConfigError: container pytorch can\'t start: secret "bert-env" not found',
    ),
    "just made": (waiting("ContainerCreating"), "its containers are being made on node-1"),
}


@pytest.mark.parametrize(("state", "text"), STATES.values(), ids=STATES.keys())
def test_container_that_can_not_start_says_why(state: Any, text: str) -> None:
    assert reason_of(MASTER, pod("worker-0", "Pending", main=state)) == text


@pytest.mark.parametrize(
    ("reason", "message", "text"),
    [
        ("FailedMount", 'MountVolume.SetUp failed for volume "data" : no such claim',
         'volume data can\'t be mounted: MountVolume.SetUp failed for volume "data" : no such claim'),
        ("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data], timed out",
         "volume data can't be mounted: Unable to attach or mount volumes: unmounted volumes=[data], timed out"),
        ("FailedCreatePodSandBox", "plugin failed", "the pod's network can't be set up on node-1: plugin failed"),
    ],
)  # fmt: skip
def test_pod_that_is_being_made_says_what_holds_it_up(reason: str, message: str, text: str) -> None:
    made = pod("worker-0", "Pending", main=waiting("ContainerCreating"))
    assert reason_of(MASTER, made, events=(event(made, reason, message),)) == text


def test_pod_that_pulls_its_image_says_so() -> None:
    made = pod("worker-0", "Pending", main=waiting("ContainerCreating"))
    events = (event(made, "Pulling", 'Pulling image "img"', warning=False),)
    assert reason_of(MASTER, made, events=events) == "pulls its image on node-1"


def test_init_containers_are_told() -> None:
    runs = {"name": "init-pytorch", "state": {"running": {}}}
    broken = {"name": "init-pytorch", "image": "alpine", "state": waiting("ImagePullBackOff", "no route")}
    assert reason_of(MASTER, pod("worker-0", "Pending", init=[runs])) == "init container init-pytorch runs on node-1"
    assert "the image alpine can't be pulled: no route" in reason_of(MASTER, pod("worker-0", "Pending", init=[broken]))


def test_restarts_are_told_although_none_are_asked_for() -> None:
    restarting = pod("worker-0")
    restarting["status"]["containerStatuses"][0]["restartCount"] = 2
    status = status_of(
        ref(), Seen(job=pytorchjob(condition("Running"), workers=1), pods=(MASTER, restarting)), clock(30)
    )
    assert status.replicas[1].reason == "restarted 2 times"
    assert status.reason == "worker-0 (rank 1): restarted 2 times"


READY = condition("ContainersReady")


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([condition("Ready", False, reason="-") | {"reason": ""}, READY], "its node node-1 does not answer"),
        ([{"type": "Ready", "status": "False"}, READY], "its node node-1 does not answer"),
        ([condition("Ready", False, reason="NodeNotReady"), READY], "its node node-1 does not answer"),
        ([condition("Ready", False, reason="ReadinessGatesNotReady"), READY], ""),
        ([condition("Ready", False, reason="ContainersNotReady"), condition("ContainersReady", False)], ""),
        ([condition("Ready"), READY], ""),
    ],
)
def test_replica_whose_node_is_not_heard_of_any_more_says_so(conditions: Any, text: str) -> None:
    silent = pod("worker-0", conditions=conditions)
    job = pytorchjob(condition("Running"), workers=1)
    assert status_of(ref(), Seen(job=job, pods=(MASTER, silent)), clock(30)).replicas[1].reason == text


QUOTA = (
    'Error creating: pods "bert-worker-0" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"
)
PLAIN = (
    "the namespace's quota team has no room: requested requests.nvidia.com/gpu=8, used requests.nvidia.com/gpu=8, "
    "limit requests.nvidia.com/gpu=8"
)


def test_pod_that_may_not_be_made_says_why_although_the_job_only_says_created() -> None:
    assert reason_of(MASTER, events=(event(CREATED, "FailedCreatePod", QUOTA),)) == PLAIN


def test_ray_pods_that_may_not_be_made_are_told_from_the_child_that_was_refused() -> None:
    cluster = {
        "kind": "RayCluster",
        "metadata": metadata(f"{NAME}-abcde", "cluster-uid", 3),
        "status": {"conditions": [condition("ReplicaFailure", reason="FailedCreateHeadPod", message=QUOTA)]},
    }
    job = rayjob("Initializing", workers=1)
    by_condition = status_of(ref("RayJob"), Seen(job=job, clusters=(cluster,)), clock(30))
    assert PLAIN in by_condition.reason
    del cluster["status"]
    events = (event(cluster, "FailedToCreateWorkerPod", QUOTA),)
    by_event = status_of(
        ref("RayJob"), Seen(job=job, pods=(ray_pod("head"),), clusters=(cluster,), events=events), clock(30)
    )
    assert by_event.reason == f"1 of 3 replicas run; worker-0: {PLAIN}"
    assert by_event.events == (Event(clock(20), f"the Ray cluster: FailedToCreateWorkerPod: {PLAIN}", warning=True),)


def test_submitter_that_may_not_be_made_is_told_by_its_own_job() -> None:
    submitter = {"kind": "Job", "metadata": metadata(NAME, "submitter-job", 8)}
    job = rayjob("Running", workers=1)
    seen = Seen(job=job, pods=(ray_pod("head"), ray_pod("worker")), events=(event(submitter, "FailedCreate", QUOTA),))
    assert status_of(ref("RayJob"), seen, clock(30)).reason == f"2 of 3 replicas run; submitter-0: {PLAIN}"


def test_a_single_replica_is_not_counted() -> None:
    master = {**unscheduled("no room"), "metadata": pod("master-0")["metadata"]}
    seen = Seen(job=pytorchjob(condition("Created"), workers=0), pods=(master,))
    assert status_of(ref(), seen, clock(30)).reason == "master-0: no room"


def test_replicas_that_wait_for_the_same_are_told_together() -> None:
    job = pytorchjob(condition("Created"), workers=4)
    pods = tuple({**unscheduled("no room"), "metadata": pod(f"worker-{index}")["metadata"]} for index in range(4))
    status = status_of(ref(), Seen(job=job, pods=(MASTER, *pods)), clock(30))
    assert status.reason == "1 of 5 replicas run; worker-0 and 3 more: no room"


def test_events_are_told_once_with_the_replicas_name_and_without_noise() -> None:
    worker = pod("worker-0", "Pending")
    events = (
        event(worker, "Scheduled", "Successfully assigned", warning=False),
        event(worker, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: none", after=5),
        event(worker, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: none", after=9),
        event(worker, "BackOff", "Back-off pulling image"),
        event(CREATED, "SetPodTemplateRestartPolicy", "Restart policy in pod template will be overwritten"),
        event(CREATED, "FailedToCreateRayCluster", 'rayclusters.ray.io "x" already exists'),
    )
    status = status_of(ref(), Seen(job=CREATED, pods=(MASTER, worker), events=events), clock(30))
    text = "worker-0: FailedScheduling: no node can take it: cpu is short on 1 of 1 nodes"
    assert status.events == (Event(clock(9), text, warning=True),)


def test_ray_pod_that_kuberay_took_away_is_told_with_its_exit_code() -> None:
    cluster = {"kind": "RayCluster", "metadata": metadata(f"{NAME}-abcde", "cluster-uid", 3)}
    message = (
        "Deleted head Pod team/bert-head-1; Pod status: Running; Pod restart policy: Never; Ray container terminated "
        "status: &ContainerStateTerminated{ExitCode:1,Signal:0,Reason:Error,Message:,StartedAt:2026-01-01}"
    )
    scaled = "Deleted worker Pod team/bert-worker-1; Pod status: Running; Ray container terminated status: nil"
    events = (
        event(cluster, "DeletedHeadPod", message, warning=False),
        event(cluster, "DeletedWorkerPod", scaled, warning=False),
    )
    status = status_of(ref("RayJob"), Seen(job=rayjob("Initializing"), clusters=(cluster,), events=events), clock(30))
    text = "the Ray cluster: DeletedHeadPod: bert-head-1 ended with exit code 1 (Error); KubeRay makes another"
    assert status.events == (Event(clock(20), text, warning=True),)


def test_pods_that_can_not_be_read_are_told_as_that() -> None:
    status = status_of(ref(), Seen(job=CREATED, blind=frozenset({"pods"})), clock(30))
    assert status.reason == "its pods can't be read: pods may not be listed"
