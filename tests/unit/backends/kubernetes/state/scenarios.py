"""The runs that are recorded, and what is done to them meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.resources import PODS, job_resource
from siflow_provider.core.status import Kind, Phase, Status

if TYPE_CHECKING:
    from tests.unit.backends.kubernetes.state.record import Recorder

Act = Callable[["Recorder", Status], Awaitable[None]]
When = Callable[[Status], bool]


@dataclass(frozen=True)
class Scenario:
    """One run.

    Attributes:
        pods: role -> annotations of its pods, which tell the fake kubelet what they do.
        acts: in this order: when the run looks so, do that.
        queued: submitted to the queue.
        gpus: of each replica.
        patch: on the rendered job.
        labels: of the job, beside its own.
        real: on the real node, where images, limits and volumes are what they are; else on a fake one.
        image, command, cpu, memory: of each replica on the real node.
        edit: changes the main container and the volumes of a role's pod, such as `worker`.
        quota: hard limits of the namespace's ResourceQuota, there while the run is.
        last: how long to look on after the end, in seconds.
    """

    kind: Kind = "PyTorchJob"
    pods: dict[str, dict[str, str]] = field(default_factory=dict)
    acts: tuple[tuple[When, Act], ...] = ()
    queued: bool = True
    workers: int = 2
    gpus: int = 1
    priority: str | None = "state-low"
    patch: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    quota: dict[str, str] = field(default_factory=dict)
    real: bool = False
    image: str = "base:test"
    command: str = "sleep 60"
    cpu: str = "100m"
    memory: str = "128Mi"
    edit: tuple[str, dict[str, Any]] | None = None
    last: float = 4.0


def phase(wanted: Phase, *, requeues: int = 0) -> When:
    return lambda status: status.phase is wanted and (status.queue is None or status.queue.requeues >= requeues)


def wait(seconds: float) -> Act:
    async def act(recorder: Recorder, status: Status) -> None:
        await recorder.look_on(seconds)

    return act


def rival(*, priority: str, seconds: int) -> Act:
    """Have a bigger job submitted, which takes the whole queue for some seconds."""

    async def act(recorder: Recorder, status: Status) -> None:
        runs = {"fakepod.test/duration": str(seconds)}
        await recorder.submit(Scenario(pods={"master": runs, "worker": runs}, gpus=2, workers=3, priority=priority))

    return act


def delete_pod(replica: str) -> Act:
    async def act(recorder: Recorder, status: Status) -> None:
        name = recorder.pod_of(replica)
        await recorder.api.delete(PODS.path(recorder.namespace, name))

    return act


def delete_job(*, by: str = "") -> Act:
    async def act(recorder: Recorder, status: Status) -> None:
        path = job_resource(status.ref.kind).path(recorder.namespace, status.ref.name)
        if by:
            await recorder.api.patch(path, {"metadata": {"annotations": {"siflow-provider/stopped-by": by}}})
            await recorder.look()
        await recorder.api.delete(path)

    return act


ENDS = {"fakepod.test/duration": "4"}
LATER = {"fakepod.test/duration": "40"}
FAILS = {"fakepod.test/duration": "3", "fakepod.test/exit-code": "1"}
HEAD = {"fakepod.test/ray-job-duration": "4"}
SUBMITTER = {"fakepod.test/duration": "6"}
WHOLE_GANG = {"master": ENDS, "worker": ENDS}
NO_VOLUME: dict[str, Any] = {
    "volumes": [{"name": "data", "configMap": {"name": "nobody-made-it"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/volume/data"}],
}
EATS_MEMORY = """if [ "$RANK" = 1 ]; then python3 -c 'x = bytearray(10**9)'; else sleep 60; fi"""
GIVE_UP = ((phase(Phase.STARTING), wait(4)), (phase(Phase.STARTING), delete_job(by="ana")))
WRONG_HEAD = {"rayStartParams": {"labels": "a=b"}}
WHOLE_RAY = {"head": HEAD, "submitter": SUBMITTER}

SCENARIOS: dict[str, Scenario] = {
    "pytorch-succeeds": Scenario(pods=WHOLE_GANG, queued=False),
    "pytorch-queued-preempted-succeeds": Scenario(
        pods={"master": {"fakepod.test/duration": "8"}, "worker": {"fakepod.test/duration": "8"}},
        acts=(
            (phase(Phase.QUEUED), wait(3)),
            (phase(Phase.RUNNING), rival(priority="state-high", seconds=5)),
        ),
    ),
    "pytorch-worker-fails": Scenario(pods={"master": LATER, "worker": FAILS}, queued=False),
    "pytorch-out-of-memory": Scenario(
        pods={"master": LATER, "worker": {**FAILS, "fakepod.test/exit-code": "137", "fakepod.test/reason": "OOMKilled"}}
    ),
    "pytorch-master-ends-first": Scenario(pods={"master": ENDS, "worker": LATER}),
    "pytorch-pod-deleted": Scenario(
        pods={"master": LATER, "worker": LATER}, acts=((phase(Phase.RUNNING), delete_pod("worker-1")),)
    ),
    "pytorch-stopped": Scenario(
        pods={"master": LATER, "worker": LATER}, acts=((phase(Phase.RUNNING), delete_job(by="ana")),)
    ),
    "pytorch-deleted": Scenario(
        pods={"master": LATER, "worker": LATER}, acts=((phase(Phase.RUNNING), delete_job()),)
    ),
    "pytorch-image": Scenario(
        pods={"master": LATER, "worker": {**LATER, "fakepod.test/image-pull-error": "true"}},
        acts=GIVE_UP,
    ),
    "pytorch-no-node": Scenario(queued=False, gpus=9, acts=GIVE_UP),
    "pytorch-time-is-up": Scenario(
        pods={"master": LATER, "worker": LATER}, labels={"kueue.x-k8s.io/max-exec-time-seconds": "5"}
    ),
    "ray-succeeds": Scenario(kind="RayJob", pods=WHOLE_RAY),
    "ray-driver-fails": Scenario(
        kind="RayJob", pods={"head": {**HEAD, "fakepod.test/ray-job-status": "FAILED"}, "submitter": SUBMITTER}
    ),
    "ray-preempted-succeeds": Scenario(
        kind="RayJob",
        pods={"head": {"fakepod.test/ray-job-duration": "8"}, "submitter": {"fakepod.test/duration": "10"}},
        acts=((phase(Phase.RUNNING), rival(priority="state-high", seconds=4)),),
    ),
    "pytorch-over-resource-quota": Scenario(queued=False, quota={"pods": "2"}, acts=GIVE_UP),
    "ray-over-resource-quota": Scenario(kind="RayJob", queued=False, quota={"pods": "2"}, acts=GIVE_UP),
    "ray-submitter-fails": Scenario(
        kind="RayJob",
        queued=False,
        pods={"head": {"fakepod.test/ray-job-duration": "60"}, "submitter": FAILS},
    ),
    "real-out-of-memory": Scenario(queued=False, real=True, gpus=0, workers=1, command=EATS_MEMORY),
    "real-no-image": Scenario(
        queued=False, real=True, gpus=0, workers=0, image="registry.invalid/none:1",
        acts=((phase(Phase.STARTING), wait(30)), (phase(Phase.STARTING), delete_job(by="ana"))),
    ),
    "real-invalid-image": Scenario(queued=False, real=True, gpus=0, workers=0, image="Not/A/Name:1"),
    "real-no-secret": Scenario(
        queued=False, real=True, gpus=0, workers=0, acts=GIVE_UP,
        edit=("master", {"envFrom": [{"secretRef": {"name": "nobody-made-it"}}]}),
    ),
    "real-no-volume": Scenario(
        queued=False, real=True, gpus=0, workers=0, acts=GIVE_UP,
        edit=("master", NO_VOLUME),
    ),
    "real-no-program": Scenario(
        queued=False, real=True, gpus=0, workers=0, edit=("master", {"command": ["/no/such/program"], "args": []})
    ),
    "real-ray-driver-fails": Scenario(
        kind="RayJob", queued=False, real=True, gpus=0, workers=0, image="ray:test", cpu="700m", memory="1Gi",
        command="echo step 1; python -c 'import trainer'",
    ),
    "real-ray-head-lost": Scenario(
        kind="RayJob", queued=False, real=True, gpus=0, workers=0, image="ray:test", cpu="700m", memory="1Gi",
        command="sleep 600",
        acts=((phase(Phase.RUNNING), delete_pod("head-0")),),
        last=1.0,
    ),
    "ray-invalid": Scenario(
        kind="RayJob", queued=False, patch={"spec": {"rayClusterSpec": {"headGroupSpec": WRONG_HEAD}}}
    ),
}  # fmt: skip
