"""A Ray cluster whose autoscaler changes its size, in the queue of a Kueue whose gate for such jobs is on (alpha).

The workers of a fake cluster are asked for by the test, with the fields that Ray's autoscaler writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.status import JobRef, Phase, Status
from tests.contract.life import end, start, until, until_phase
from tests.control_plane.admin import Admin, Object
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import GPU, Queues, own_place
from tests.integration.kubernetes_tasks import opened, task

CONTROL_PLANE_OPTIONS = ("--elastic",)
RAY = "ray.io/v1"


@pytest.fixture
def queues(own_admin: Admin) -> Iterator[Queues]:
    with own_place(own_admin) as place:
        yield place


@pytest.fixture
async def backend(own_control_plane: ControlPlane, queues: Queues) -> AsyncIterator[KubernetesBackend]:
    async with opened(own_control_plane.kubeconfig, queues.namespace, elastic_jobs=True) as made:
        yield made


@dataclass(frozen=True)
class Scaled:
    """What stands in the test's namespace, which holds one run."""

    admin: Admin
    namespace: str
    cluster_queue: str

    def all(self, kind: str, version: str = "") -> list[Object]:
        return self.admin.items(self.admin.path(kind, namespace=self.namespace, version=version))

    def pods(self, role: str) -> dict[str, str]:
        """Return name and path of each replica of that role."""
        names = [pod["metadata"]["name"] for pod in self.all("Pod") if _role(pod) == role]
        return {name: self.admin.path("Pod", name, self.namespace) for name in names}

    def resize(self, workers: int, *, without: tuple[str, ...] = ()) -> None:
        """Ask KubeRay for that many workers, of those that run without some."""
        (cluster,) = self.all("RayCluster", RAY)
        (group,) = cluster["spec"]["workerGroupSpecs"]
        changed = {**group, "replicas": workers, "scaleStrategy": {"workersToDelete": list(without)}}
        self.admin.patch(self.admin.path_of(cluster), {"spec": {"workerGroupSpecs": [changed]}})

    async def until_queue(self, wanted: Callable[[Object], bool]) -> None:
        """Wait until the ClusterQueue's status is as wanted."""
        path = self.admin.path("ClusterQueue", self.cluster_queue)
        await asyncio.to_thread(self.admin.wait, path, lambda found: wanted((found or {})["status"]))

    async def until_gone(self, *kinds: tuple[str, str]) -> None:
        """Wait until the namespace has none of these kinds."""
        for kind, version in kinds:
            path = self.admin.path(kind, namespace=self.namespace, version=version)
            await asyncio.to_thread(self.admin.wait, path, lambda found: not (found or {})["items"], "nothing left")


def _role(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["siflow-provider/role"])


def reserves(gpus: int) -> Callable[[Object], bool]:
    """Return whether a ClusterQueue's status says that so many GPUs are taken."""

    def said(status: Object) -> bool:
        (flavor,) = status["flavorsReservation"]
        return (GPU, str(gpus)) in ((each["name"], each["total"]) for each in flavor["resources"])

    return said


def holds(gpus: int, **workers: int) -> Callable[[Status], bool]:
    """Return whether a run is told to hold so many GPUs, with so many workers in each phase."""

    def said(status: Status) -> bool:
        phases = [replica.phase.value for replica in status.replicas if replica.role == "worker"]
        return status.gpus == gpus and {phase: phases.count(phase) for phase in workers} == workers

    return said


async def test_a_run_that_grows_and_shrinks_goes_on_all_the_time_and_counts_what_it_holds(
    backend: KubernetesBackend, own_admin: Admin, queues: Queues
) -> None:
    cluster_queue = queues.cluster_queue({queues.flavor(): {"cpu": 100, "memory": "1Ti", GPU: 4}})
    what = task(
        queues.local_queue(cluster_queue),
        kind="RayJob",
        workers=1,
        ray={"autoscaling": {"min_workers": 1, "max_workers": 5}},
        fake={"ray-job-duration": "600", "duration": "600"},
    )
    scaled = Scaled(own_admin, queues.namespace, cluster_queue)
    ref = await start(backend, what)
    first = await until_phase(backend, ref, Phase.RUNNING)
    assert holds(2, running=1)(first)
    told: list[Status] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(_keep(backend, ref, told))
        await _grow(scaled, backend, ref)
        assert (await backend.quota(what)).fits_now is False
        await _shrink(scaled, backend, ref)
        ended = await _finish(scaled, backend, ref)
    assert (ended.phase, ended.ref.attempt, ended.gpus) == (Phase.SUCCEEDED, 1, 2)
    assert {status.phase for status in told} == {Phase.RUNNING, Phase.SUCCEEDED}
    assert {(status.admitted_at, status.queued_seconds) for status in told} == {
        (first.admitted_at, first.queued_seconds)
    }
    assert {status.queue.requeues for status in told if status.queue is not None} == {0}
    await scaled.until_queue(reserves(0))
    await backend.delete(ref)
    await scaled.until_gone(("RayJob", RAY), ("RayCluster", RAY), ("Workload", ""), ("Pod", ""))


async def _keep(backend: KubernetesBackend, ref: JobRef, told: list[Status]) -> None:
    async for status in backend.watch(ref):
        told.append(status)


async def _grow(scaled: Scaled, backend: KubernetesBackend, ref: JobRef) -> None:
    """Grow into all of the quota, then ask for more: that waits in the queue, while the run goes on as it is."""
    scaled.resize(3)
    await until(backend, ref, holds(4, running=3))
    await scaled.until_queue(reserves(4))
    scaled.resize(5)
    await scaled.until_queue(lambda status: status["pendingWorkloads"] == 1)
    waiting = await until(backend, ref, holds(4, running=3, starting=2))
    assert waiting.phase is Phase.RUNNING
    await scaled.until_queue(reserves(4))
    assert len(scaled.all("Workload")) == 3


async def _shrink(scaled: Scaled, backend: KubernetesBackend, ref: JobRef) -> None:
    """Give up all workers but one, those that wait as well."""
    _, *others = scaled.pods("worker")
    scaled.resize(1, without=tuple(others))
    await scaled.until_queue(reserves(2))
    await until(backend, ref, holds(2, running=1, starting=0))


async def _finish(scaled: Scaled, backend: KubernetesBackend, ref: JobRef) -> Status:
    (head,), (submitter,) = scaled.pods("head").values(), scaled.pods("submitter").values()
    scaled.admin.annotate(head, ray_job_duration="1")
    scaled.admin.annotate(submitter, duration="0")
    return await end(backend, ref)
