"""What becomes of a run whose pods are deleted, evicted, can't be placed, or fail, under real operators."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from scripts.airflow_stack import wait_until
from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import FailureClass, JobRef, Kind, Phase, Status
from tests.contract.life import Told, run_to_end, until, until_phase
from tests.contract.worlds.kubernetes import KubernetesWorld
from tests.control_plane.admin import Admin, Object
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.kubernetes_tasks import manifest, task

_SOON_SECONDS = 30
_ENDS_SLOWLY = "trap 'sleep 4; exit 1' TERM; sleep 600 & wait"
"""A program that saves its state first: one that is gone at once the operator may not miss, and start anew."""


def pod_path(admin: Admin, ref: JobRef, replica: str) -> str:
    return admin.path("Pod", f"{ref.name}-{replica}", ref.namespace)


async def end_all(admin: Admin, ref: JobRef, *replicas: str) -> None:
    for replica in replicas:
        await asyncio.to_thread(admin.annotate, pod_path(admin, ref, replica), exit_code="0", duration="0")


async def soon(backend: KubernetesBackend, ref: JobRef) -> Status:
    return await until(backend, ref, lambda seen: seen.phase.terminal, seconds=_SOON_SECONDS)


async def test_a_pod_that_is_deleted_before_its_container_ran_is_made_again_and_fails_nothing(
    admin: Admin, backend: KubernetesBackend
) -> None:
    ref = await backend.submit(manifest(backend, task(None, workers=1, fake={"image-pull-error": "true"})))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    first = await asyncio.to_thread(admin.wait, pod_path(admin, ref, "worker-0"), bool)
    assert first is not None
    await until(backend, ref, lambda seen: "can't be pulled" in seen.reason)
    await asyncio.to_thread(admin.delete, pod_path(admin, ref, "worker-0"))
    another = await asyncio.to_thread(
        admin.wait,
        pod_path(admin, ref, "worker-0"),
        lambda found: found and found["metadata"]["uid"] != first["metadata"]["uid"],
        "made again",
    )
    assert another is not None
    for replica in ("master-0", "worker-0"):  # the registry is back: a passing trouble fails no start
        await asyncio.to_thread(admin.annotate, pod_path(admin, ref, replica), image_pull_error=None)
    await until_phase(backend, ref, Phase.RUNNING)
    await end_all(admin, ref, "worker-0", "master-0")  # once the master has ended well, its operator removes the others
    async with asyncio.timeout(_SOON_SECONDS):
        outcome = await following
    assert outcome.kind is OutcomeKind.SUCCEEDED, outcome.failure
    assert [text for text in told.warnings + told.notes if "can't be pulled" in text]


@pytest.fixture
def world(control_plane: ControlPlane, queues: Queues) -> KubernetesWorld:
    """Real pods: only a real kubelet tells how a pod ended before it is gone."""
    return KubernetesWorld(control_plane.kubeconfig, queues)


async def test_a_running_pod_that_somebody_deletes_fails_the_run_by_its_name(
    admin: Admin, backend: KubernetesBackend, world: KubernetesWorld
) -> None:
    ref = await backend.submit(manifest(backend, world.task(_ENDS_SLOWLY, workers=1)))
    await until_phase(backend, ref, Phase.RUNNING)
    await asyncio.to_thread(admin.delete, pod_path(admin, ref, "master-0"))
    failure = (await soon(backend, ref)).failure
    assert failure is not None
    assert failure.replica == "master-0"
    assert "deleted by somebody while it ran" in failure.summary


async def test_a_running_pod_that_is_evicted_is_told_as_drained_and_worth_a_retry(
    admin: Admin, backend: KubernetesBackend, world: KubernetesWorld
) -> None:
    ref = await backend.submit(manifest(backend, world.task(_ENDS_SLOWLY, workers=1)))
    await until_phase(backend, ref, Phase.RUNNING)
    eviction = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": f"{ref.name}-worker-0", "namespace": ref.namespace},
    }  # fmt: skip
    await asyncio.to_thread(admin.request, "POST", f"{pod_path(admin, ref, 'worker-0')}/eviction", eviction)
    failure = (await soon(backend, ref)).failure
    assert failure is not None
    assert (failure.category, failure.replica, failure.transient) == (FailureClass.NODE_LOST, "worker-0", True)


async def test_start_timeout_tells_why_no_node_takes_the_pods_and_spares_a_run_that_started(
    admin: Admin, backend: KubernetesBackend
) -> None:
    policy = FollowPolicy(start_timeout=6.0)
    never, healthy = [await backend.submit(manifest(backend, task(None, gpus=gpus))) for gpus in (9, 1)]
    kept = asyncio.create_task(follow(backend, healthy, policy, Told()))
    outcome = await follow(backend, never, policy, Told())
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.TIMEOUT
    assert "start_timeout of 6s" in outcome.failure.summary
    assert "nvidia.com/gpu is short on" in outcome.failure.describe()
    assert (await backend.status(healthy)).phase is Phase.RUNNING
    await end_all(admin, healthy, "master-0")
    async with asyncio.timeout(_SOON_SECONDS):
        assert (await kept).kind is OutcomeKind.SUCCEEDED


@dataclass(frozen=True)
class Failing:
    """A task that always fails, and how often it is started with one retry."""

    kind: Kind
    fails: dict[str, str]
    retry_on: dict[str, list[str]]
    starts: int


_STARTS = {"PyTorchJob": "SuccessfulCreatePod", "RayJob": "CreatedRayCluster"}
_FAILING_DRIVER = {"ray-job-status": "FAILED", "ray-job-duration": "1"}
_FAILING = {
    "wrong code": Failing("PyTorchJob", {"exit-code": "1", "duration": "1"}, {}, 1),
    "wrong code, to be retried": Failing("PyTorchJob", {"exit-code": "1", "duration": "1"}, {"retry_on": ["code"]}, 2),
    "SIGKILL": Failing("PyTorchJob", {"exit-code": "137", "duration": "1"}, {}, 2),
    "SIGTERM": Failing("PyTorchJob", {"exit-code": "143", "duration": "1"}, {}, 2),
    "driver, to be retried": Failing("RayJob", _FAILING_DRIVER, {"retry_on": ["code"]}, 2),
}


@pytest.mark.parametrize("row", _FAILING.values(), ids=_FAILING.keys())
async def test_a_failing_task_starts_max_retries_plus_one_times_whatever_its_operator_would_do(
    admin: Admin, backend: KubernetesBackend, namespace: str, row: Failing
) -> None:
    what = task(None, kind=row.kind, fake=row.fails, fault_tolerance={"max_retries": 1, **row.retry_on})
    ended, refs = await run_to_end(backend, what, Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert len(refs) == row.starts
    made = await asyncio.to_thread(_starts, admin, namespace, row)
    assert sum(event.get("count", 1) for event in made) == row.starts, made


def _starts(admin: Admin, namespace: str, row: Failing) -> list[Object]:
    """Return the operator's events of starts, which it sends when it finds the time."""
    path = admin.path("Event", namespace=namespace)

    def look() -> list[Object] | None:
        made = [event for event in admin.items(path) if event["reason"] == _STARTS[row.kind]]
        return made if sum(event.get("count", 1) for event in made) >= row.starts else None

    return wait_until(look, timeout=60, what=f"{row.starts} starts")
