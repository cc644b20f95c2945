"""Submissions that break off anywhere, come all at once, or have odd names, on a real API server."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS, job_resource
from siflow_provider.backends.kubernetes.rendering import revealed
from siflow_provider.core.identity import MAX_NAME, Identity
from siflow_provider.core.launch import launch
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Kind, Phase
from siflow_provider.errors import BackendError, BackendUnavailable
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.life import Told, until
from tests.control_plane.admin import Admin
from tests.control_plane.faults import BadWay, bad_way
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.clusters import settings_for
from tests.integration.kubernetes_tasks import manifest, opened, task

_BROKEN_RUNS = 200
_BROKEN_AT_ONCE = 8
_AT_ONCE = 30


@pytest.fixture
def closed_queue(queues: Queues) -> str:
    """A queue that lets nothing go: jobs are made, and no pods of them."""
    return queues.queue(GPU=0)


async def _made(api: Api, namespace: str, version: str, last: str) -> Counter[str]:
    """Count how often a job of each name was made, up to the last one."""
    found: Counter[str] = Counter()
    async with aclosing(api.watch(PYTORCHJOBS.path(namespace), {"resourceVersion": version})) as events:
        async for event in events:
            if event["type"] == "ADDED":
                found[event["object"]["metadata"]["name"]] += 1
            if last in found:
                break
    return found


async def _launched_once(way: BadWay, namespace: str, what: ResolvedTask, identity: Identity) -> JobRef:
    async with opened(way.kubeconfig, namespace) as backend:
        done = await launch(backend, what, RenderContext(identity=identity), quota="ignore", reporter=Told())
        return done.ref


async def _launched_at_last(way: BadWay, namespace: str, what: ResolvedTask, chance: random.Random) -> JobRef:
    """Submit as workers do that are killed at any moment while the net breaks, until one gets through."""
    identity = Identity.random()
    for _ in range(chance.randint(1, 3)):
        worker = asyncio.create_task(_launched_once(way, namespace, what, identity))
        await asyncio.wait({worker}, timeout=chance.uniform(0, 0.4))
        if chance.random() < 0.5:
            way.cut()
            await asyncio.wait({worker}, timeout=chance.uniform(0, 0.2))
        worker.cancel()
        with suppress(asyncio.CancelledError, BackendError):
            await worker
    return await _launched_once(way, namespace, what, identity)


async def test_whatever_breaks_off_a_submission_and_however_often_one_job_is_ever_made(
    control_plane: ControlPlane, namespace: str, closed_queue: str, tmp_path: Path
) -> None:
    what = task(closed_queue)
    async with (
        Api(settings_for(control_plane.kubeconfig, namespace=namespace)) as api,
        bad_way(control_plane.kubeconfig, tmp_path) as way,
        opened(control_plane.kubeconfig, namespace) as backend,
    ):
        version = (await api.list(PYTORCHJOBS.path(namespace)))["metadata"]["resourceVersion"]
        last = manifest(backend, what)
        counting = asyncio.create_task(_made(api, namespace, version, last.name))
        refs: list[JobRef] = []
        for first in range(0, _BROKEN_RUNS, _BROKEN_AT_ONCE):
            chances = [random.Random(number) for number in range(first, first + _BROKEN_AT_ONCE)]
            refs += await asyncio.gather(*(_launched_at_last(way, namespace, what, each) for each in chances))
        refs.append(await backend.submit(last))
        async with asyncio.timeout(30):
            assert await counting == Counter(ref.name for ref in refs)


async def test_thirty_tasks_that_start_at_once_under_a_resource_quota_get_a_job_each(
    admin: Admin, backend: KubernetesBackend, namespace: str, closed_queue: str
) -> None:
    admin.create({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": namespace},
        "spec": {"hard": {"count/pytorchjobs.kubeflow.org": str(_AT_ONCE), "secrets": str(_AT_ONCE)}},
    })  # fmt: skip
    path = admin.path("ResourceQuota", "team", namespace)
    await asyncio.to_thread(admin.wait, path, lambda found: found and found.get("status", {}).get("used"))
    what = task(closed_queue)
    refs = await asyncio.gather(*(backend.submit(manifest(backend, what)) for _ in range(_AT_ONCE)))
    jobs = admin.items(admin.path("PyTorchJob", namespace=namespace, version="kubeflow.org/v1"))
    assert sorted(job["metadata"]["name"] for job in jobs) == sorted(ref.name for ref in refs)
    assert len(set(refs)) == _AT_ONCE


_UNMANAGED: dict[str, tuple[dict[str, Any], str]] = {
    "kept cluster": ({"shutdownAfterJobFinishes": False}, "should delete the cluster after finishing"),
    "existing cluster": ({"clusterSelector": {"ray.io/cluster": "shared"}}, "should not use an existing cluster"),
}


@pytest.mark.parametrize("name", _UNMANAGED)
async def test_what_a_queue_can_not_manage_is_refused_at_once_and_leaves_nothing(
    admin: Admin, backend: KubernetesBackend, namespace: str, closed_queue: str, name: str
) -> None:
    patch, said = _UNMANAGED[name]
    what = task(closed_queue, kind="RayJob", kubernetes={"patch": {"spec": patch}})
    with pytest.raises(BackendError, match=said) as refused:
        await backend.submit(manifest(backend, what))
    assert not isinstance(refused.value, BackendUnavailable)  # which would be tried again
    for kind, version in (("RayJob", "ray.io/v1"), ("Secret", "v1")):
        assert admin.items(admin.path(kind, namespace=namespace, version=version)) == []


_IDS = {
    "long": ("team.etl." * 30, "train__" * 36),
    "Cyrillic": ("обучение.модели", "шаг_1"),
    "Chinese": ("训练.夜间", "步骤"),
    "emoji": ("🚀🚀", "🔥"),
    "accents": ("Señal.Diária", "TRAIN"),
    "dashes": ("---", "__"),
    "digits": ("2024", "1"),
}
_ENV = {"EPOCHS": 3, "FLAG": True, "RATE": 1e-5, "QUOTED": 'it\'s "so"\n$(HOME) `x` é', "EMPTY": ""}


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
async def test_a_task_of_any_name_with_numbers_in_its_env_is_taken_by_the_api_server(
    backend: KubernetesBackend, control_plane: ControlPlane, namespace: str, closed_queue: str, kind: Kind
) -> None:
    labels = {"team": "nlp", "title": "обучение, ночь"}
    form = task(closed_queue, kind=kind, workers=2, env=_ENV)
    what = replace(form, labels=labels, env={name: str(value) for name, value in form.task.env.items()})
    names = set()
    async with Api(settings_for(control_plane.kubeconfig, namespace=namespace)) as api:
        for dag_id, task_id in _IDS.values():
            identity = Identity(dag_id=dag_id, task_id=task_id, run_id="scheduled__2026-01-01T00:00:00+00:00")
            made = manifest(backend, what, identity)
            names.add(made.name)
            for document in revealed(made):
                placed = {**document, "metadata": {"namespace": namespace, **document["metadata"]}}
                kept = await api.create(_collection(placed), placed, dry_run=True)
                assert kept["metadata"]["annotations"]["siflow-provider/task-id"] == task_id
    assert len(names) == len(_IDS)


def _collection(document: dict[str, Any]) -> str:
    kind, namespace = document["kind"], document["metadata"]["namespace"]
    if kind in {"PyTorchJob", "RayJob"}:
        return job_resource(kind).path(namespace)
    return f"/api/v1/namespaces/{namespace}/{kind.lower()}s"


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
async def test_the_longest_name_leaves_its_operator_room_for_the_names_of_pods_and_services(
    admin: Admin, backend: KubernetesBackend, namespace: str, kind: Kind
) -> None:
    identity = Identity(dag_id="d" * 250, task_id="t" * 250, run_id="r").for_attempt(1000)
    what = task(None, kind=kind, workers=1, gpus=0)
    ref = await backend.submit(manifest(backend, what, identity))
    assert len(ref.name) == MAX_NAME
    status = await until(backend, ref, lambda seen: seen.phase is Phase.RUNNING)
    assert "worker-0" in {each.name for each in status.replicas}
    await backend.delete(ref)
