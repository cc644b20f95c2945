"""What becomes of a Ray job whose pods may not be made, or whose head goes away, under a real KubeRay."""

from __future__ import annotations

import asyncio

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import FailureClass, JobRef, Phase
from tests.contract.life import Told, start, until, until_phase
from tests.control_plane.admin import Admin, Object
from tests.integration.kubernetes_tasks import manifest, task
from tests.integration.real_tasks import real_task

_GOES_ON = {"duration": "600", "ray-job-duration": "600"}
_ROOM = "the namespace's quota team has no room"


def made_by_kuberay(admin: Admin, ref: JobRef) -> list[Object]:
    """Return the job's Ray clusters and their pods."""
    clusters = admin.items(admin.path("RayCluster", namespace=ref.namespace, version="ray.io/v1"))
    return clusters + admin.items(admin.path("Pod", namespace=ref.namespace), labelSelector="ray.io/cluster")


async def refused(admin: Admin, ref: JobRef, count: int) -> None:
    """Wait until KubeRay was refused a worker so often."""

    def often(found: Object | None) -> bool:
        events = [each for each in (found or {})["items"] if each["reason"] == "FailedToCreateWorkerPod"]
        return sum(each.get("count") or 1 for each in events) >= count

    events = admin.path("Event", namespace=ref.namespace)
    await asyncio.to_thread(admin.wait, events, often, f"refused {count} times")


async def test_worker_that_a_quota_refuses_is_told_in_the_words_of_its_cluster_and_again_only_when_they_change(
    admin: Admin, backend: KubernetesBackend, namespace: str
) -> None:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
    }  # fmt: skip
    path = admin.path_of(admin.create(quota))
    await asyncio.to_thread(admin.wait, path, lambda found: found and found.get("status", {}).get("used"))
    ref = await backend.submit(manifest(backend, task(None, kind="RayJob", workers=1)))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    await until(backend, ref, lambda seen: _ROOM in seen.reason)
    await refused(admin, ref, 3)
    await until(backend, ref, lambda seen: any(_ROOM in each.reason for each in seen.replicas))
    said = [text for text in told.notes + told.warnings if _ROOM in text]
    assert said
    assert len(said) == len(set(said)), said
    assert any(text.startswith("worker-0 waits: ") for text in said), said
    admin.patch(path, {"spec": {"hard": {"requests.nvidia.com/gpu": "2"}}})
    async with asyncio.timeout(90):
        assert (await following).kind is OutcomeKind.SUCCEEDED


async def test_head_that_is_deleted_under_the_driver_is_told_as_the_cause_and_the_cluster_is_released(
    admin: Admin, backend: KubernetesBackend
) -> None:
    """Real Ray: another head, of which KubeRay makes one, knows nothing of the driver."""
    ref = await start(backend, real_task("echo at work; sleep 600", kind="RayJob"))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    await told.until_line("at work")
    (head,) = admin.items(admin.path("Pod", namespace=ref.namespace), labelSelector="ray.io/node-type=head")
    await asyncio.to_thread(admin.delete, admin.path("Pod", head["metadata"]["name"], ref.namespace))
    async with asyncio.timeout(150):
        failure = (await following).failure
    assert failure is not None
    assert (failure.category, failure.replica, failure.transient) == (FailureClass.NODE_LOST, "head-0", True)
    assert "the driver with it" in failure.summary
    pods = admin.path("Pod", namespace=ref.namespace)
    await asyncio.to_thread(admin.wait, pods, lambda _: not made_by_kuberay(admin, ref), "the cluster is released")


async def test_submitter_that_fails_is_named_and_the_cluster_is_released(
    admin: Admin, backend: KubernetesBackend
) -> None:
    what = task(None, kind="RayJob", workers=1, fake=_GOES_ON)
    ref = await backend.submit(manifest(backend, what))
    await until_phase(backend, ref, Phase.RUNNING)
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), Told()))
    (pod,) = admin.items(admin.path("Pod", namespace=ref.namespace), labelSelector=f"job-name={ref.name}")
    path = admin.path("Pod", pod["metadata"]["name"], ref.namespace)
    await asyncio.to_thread(admin.annotate, path, exit_code="1", duration="0")
    async with asyncio.timeout(120):
        failure = (await following).failure
    assert failure is not None
    assert (failure.replica, failure.exit_code) == ("submitter-0", 1)
    pods = admin.path("Pod", namespace=ref.namespace)
    await asyncio.to_thread(admin.wait, pods, lambda _: not made_by_kuberay(admin, ref), "the cluster is released")
