"""What a job held of its queue is free again soon after its end, and no job keeps what it no longer uses."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.status import JobRef, Kind, Phase
from tests.contract.life import until, until_phase
from tests.control_plane.admin import Admin, Object
from tests.control_plane.queues import GPU, Queues
from tests.integration.kubernetes_tasks import manifest, task

_SOON_SECONDS = 30


@pytest.fixture
def cluster_queue(queues: Queues) -> str:
    return queues.cluster_queue({queues.flavor(): {"cpu": 100, "memory": "1Ti", GPU: 8}})


def reserved(queue: Object | None) -> int:
    """Return how many GPUs a ClusterQueue holds for its jobs."""
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    return sum(int(each["total"]) for flavor in flavors for each in flavor["resources"] if each["name"] == GPU)


async def until_reserved(admin: Admin, cluster_queue: str, gpus: int) -> None:
    path = admin.path("ClusterQueue", cluster_queue)
    await asyncio.to_thread(admin.wait, path, lambda found: reserved(found) == gpus, f"{gpus} GPUs", _SOON_SECONDS)


async def until_pods(admin: Admin, ref: JobRef, names: set[str]) -> None:
    """Wait until the run has no other pods."""
    path = f"{admin.path('Pod', namespace=ref.namespace)}?labelSelector=siflow-provider/run={ref.task_uuid}"

    def are_gone(found: Object | None) -> bool:
        return {pod["metadata"]["name"] for pod in (found or {})["items"]} <= names

    await asyncio.to_thread(admin.wait, path, are_gone, "no other pods", _SOON_SECONDS)


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
async def test_a_cancelled_job_gives_all_its_quota_back_within_half_a_minute(
    admin: Admin, backend: KubernetesBackend, queues: Queues, cluster_queue: str, kind: Kind
) -> None:
    what = task(queues.local_queue(cluster_queue), kind=kind, workers=2)
    assert reserved(admin.find(admin.path("ClusterQueue", cluster_queue))) == 0
    ref = await backend.submit(manifest(backend, what))
    await until_reserved(admin, cluster_queue, 3)
    await until_phase(backend, ref, Phase.STARTING, Phase.RUNNING)
    await backend.stop(ref, by="mia")
    await until_reserved(admin, cluster_queue, 0)
    await until_pods(admin, ref, set())


async def test_one_failing_rank_of_four_frees_the_places_of_the_other_three(
    admin: Admin, backend: KubernetesBackend, queues: Queues, cluster_queue: str
) -> None:
    ref = await backend.submit(manifest(backend, task(queues.local_queue(cluster_queue), workers=3)))
    await until_phase(backend, ref, Phase.RUNNING)
    await until_reserved(admin, cluster_queue, 4)
    last = admin.path("Pod", f"{ref.name}-worker-2", ref.namespace)
    await asyncio.to_thread(admin.annotate, last, exit_code="1", duration="0")
    status = await until(backend, ref, lambda seen: seen.phase.terminal, seconds=_SOON_SECONDS)
    assert status.failure is not None
    assert (status.failure.replica, status.failure.rank, status.failure.exit_code) == ("worker-2", 3, 1)
    await until_reserved(admin, cluster_queue, 0)
    await until_pods(admin, ref, {f"{ref.name}-worker-2"})  # the one whose log tells why
