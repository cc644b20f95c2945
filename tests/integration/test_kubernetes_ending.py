"""What is left of a run in a real cluster once it is over."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.spec.resolve import Mount
from tests.contract.life import mine, until_phase
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.kubernetes_tasks import manifest, path, task
from tests.unit.cli.airflow_answers import TOKEN, AirflowAnswers
from tests.unit.cli.conftest import Command

_SHARED = Mount("shared_storage", "scratch", "/tmp/ray", pvc="scratch", sub_path="team")


async def shared_run(backend: KubernetesBackend, queues: Queues, identity: Identity, **storage: object) -> JobRef:
    """Submit a RayJob whose data is to go at its end."""
    ray = {"shared_storage": {"volume": "pvc:scratch", "clean_up": True}}
    what = task(queues.queue("kwok"), kind="RayJob", mounts=(_SHARED,), ray=ray)
    return await backend.submit(manifest(backend, what, identity))


def cleaners(admin: Admin, namespace: str) -> list[str]:
    found = admin.items(admin.path("Job", namespace=namespace, version="batch/v1"))
    return [job["metadata"]["name"] for job in found if job["metadata"]["name"].endswith("-clean-up")]


async def test_shared_data_is_removed_once_for_all_attempts_also_of_a_run_that_was_stopped(
    admin: Admin, backend: KubernetesBackend, queues: Queues, namespace: str
) -> None:
    identity = Identity.random()
    first = await shared_run(backend, queues, identity)
    assert cleaners(admin, namespace) == []
    await backend.stop(first, by="mia")
    second = await shared_run(backend, queues, identity.for_attempt(2))
    await backend.stop(second, by="mia")
    for _ in range(2):
        await backend.finish(second)
        assert cleaners(admin, namespace) == [f"{first.name}-clean-up"]


async def test_a_run_that_keeps_its_data_leaves_no_job_behind(
    admin: Admin, backend: KubernetesBackend, queues: Queues, namespace: str
) -> None:
    ref = await backend.submit(manifest(backend, task(queues.queue("kwok"), kind="RayJob")))
    await backend.finish(ref)
    await backend.delete(ref)
    await backend.finish(ref)
    assert cleaners(admin, namespace) == []


async def test_a_stop_of_a_queued_run_gives_its_place_to_the_next(
    admin: Admin, backend: KubernetesBackend, queues: Queues, namespace: str
) -> None:
    queue = queues.queue("kwok", GPU=1)
    refs = [await backend.submit(manifest(backend, task(queue))) for _ in range(3)]
    await until_phase(backend, refs[0], Phase.RUNNING)
    await backend.stop(refs[1], by="mia")
    workloads = admin.items(admin.path("Workload", namespace=namespace))
    assert {refs[1].uid} & {item["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] for item in workloads} == set()
    await backend.stop(refs[0], by="mia")
    async with asyncio.timeout(30):
        await until_phase(backend, refs[2], Phase.RUNNING)


async def test_a_run_that_somebody_deleted_with_a_mark_is_stopped_for_every_process_that_watches(
    admin: Admin, backend: KubernetesBackend, queues: Queues, control_plane: ControlPlane, namespace: str
) -> None:
    ref = await backend.submit(manifest(backend, task(queues.queue("kwok"))))
    watching = asyncio.create_task(until_phase(backend, ref, Phase.STOPPED, Phase.LOST))
    await until_phase(backend, ref, Phase.RUNNING)
    admin.patch(path(admin, ref), {"metadata": {"annotations": {"siflow-provider/stopped-by": "noa elsewhere"}}})
    admin.delete(path(admin, ref))
    status = await watching
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "noa elsewhere")


async def test_gc_ends_the_run_of_a_task_that_is_over_on_the_cluster_and_leaves_the_others(
    admin: Admin, backend: KubernetesBackend, queues: Queues, control_plane: ControlPlane, tmp_path: Path
) -> None:
    what, names = task(queues.queue("kwok")), ("over", "alive", "unheard")
    tries = {name: mine(task_id=name) for name in names}
    refs = {name: await backend.submit(manifest(backend, what, identity)) for name, identity in tries.items()}
    await until_phase(backend, refs["over"], Phase.RUNNING)
    namespace = refs["over"].namespace
    options = {"kube_config_path": str(control_plane.kubeconfig), "namespace": namespace}
    conn = json.dumps({"conn_type": "siflow", "extra": {"backend": "kubernetes", **options}})
    with AirflowAnswers() as airflow:
        airflow.put("dag", tries["over"].run_id, "over", "failed")
        airflow.put("dag", tries["alive"].run_id, "alive", "deferred")
        arguments = ("gc", "--conn", conn, "--airflow", airflow.url, "--yes", "--json")
        done = await asyncio.to_thread(Command(tmp_path), *arguments, variables={"SIFLOW_AIRFLOW_TOKEN": TOKEN})
    assert done.code == 0, done.err
    told = {one["task"]["task_id"]: (one["airflow"], one["action"], one["done"]) for one in done.data}
    assert told == {
        "over": ("failed, try 1", "stop", True),
        "alive": ("deferred, try 1", "keep", None),
        "unheard": ("missing", "keep", None),
    }
    left = admin.items(admin.path("PyTorchJob", namespace=namespace, version="kubeflow.org/v1"))
    assert {job["metadata"]["name"] for job in left} == {refs["alive"].name, refs["unheard"].name}


async def test_the_cluster_removes_an_ended_job_and_who_follows_it_has_seen_its_end(
    admin: Admin, backend: KubernetesBackend, queues: Queues
) -> None:
    what = replace(task(queues.queue("kwok"), fake={"duration": "1"}), ttl_seconds_after_finished=1.0)
    ref = await backend.submit(manifest(backend, what))
    assert (await until_phase(backend, ref, Phase.SUCCEEDED, Phase.LOST)).phase is Phase.SUCCEEDED
    await asyncio.to_thread(admin.wait, path(admin, ref), lambda found: found is None)
    assert (await backend.status(ref)).phase is Phase.SUCCEEDED
