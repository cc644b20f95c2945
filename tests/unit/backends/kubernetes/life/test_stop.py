"""A stop that meets others at work on the same objects; a real server can't be made to do it at the right moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import PODS, PYTORCHJOBS, Resource
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life import stop as module
from siflow_provider.backends.kubernetes.life.stop import stop
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef
from siflow_provider.errors import BackendUnavailable
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, Fault, answers, reset

JOBS_PATH, PODS_PATH = PYTORCHJOBS.path("ml"), PODS.path("ml")


def ref(uid: str) -> JobRef:
    return JobRef(
        backend="kubernetes", kind="PyTorchJob", name="train", namespace="ml", uid=uid, task_uuid="0b5c", attempt=1
    )


def of_run(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": "0b5c"}
    labels["siflow-provider/attempt"] = "1"
    metadata = {"name": name, "namespace": "ml", "uid": uid, "labels": labels}
    metadata["creationTimestamp"] = "2026-05-01T10:00:00Z"
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": {}}


async def test_a_stop_of_a_run_whose_job_is_gone_waits_until_its_pods_have_ended_too(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(PODS_PATH, of_run(PODS, "train-master-0", "uid-of-a-pod"))
    async with open_cluster(settings, pace=pace) as cluster:
        stopping = asyncio.create_task(stop(cluster, ref("gone"), by="mia"))
        await server.watched(2)
        assert not stopping.done()
        server.remove(PODS_PATH, "train-master-0")
        async with asyncio.timeout(10):
            await stopping


async def test_a_stop_that_meets_the_controller_at_the_same_moment_marks_the_job_again(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "busy"))
    server.faults["patch"].append(answers(409, "Conflict", "the object has been modified"))
    async with open_cluster(settings, pace=pace) as cluster:
        await stop(cluster, ref("busy"), by="mia")
    assert (server.count("patch"), server.count("delete")) == (2, 1)


async def test_a_stop_that_can_not_mark_the_job_does_not_call_it_stopped(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "busier"))
    server.faults["patch"].extend([answers(409, "Conflict", "the object has been modified")] * 5)
    async with open_cluster(settings, pace=pace) as cluster:
        with pytest.raises(BackendUnavailable, match="changes all the time"):
            await stop(cluster, ref("busier"), by="mia")
    assert server.count("delete") == 0


@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
@pytest.mark.parametrize("passing", [answers(500, "InternalError"), answers(429, "TooManyRequests"), reset])
async def test_a_stop_outlives_what_passes_and_deletes_once(
    verb: str, passing: Fault, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "kept"))
    server.faults[verb].extend([passing] * 2)
    async with open_cluster(settings, pace=pace) as cluster:
        await stop(cluster, ref("kept"), by="mia")
        assert (await cluster.api.list(JOBS_PATH))["items"] == []
    assert not server.faults[verb]


@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
async def test_a_stop_of_a_job_that_goes_at_that_moment_is_done(
    verb: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async def gone(_request: web.Request) -> web.StreamResponse | None:
        server.remove(JOBS_PATH, "train")
        return None

    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "going"))
    server.faults[verb].append(gone)
    async with open_cluster(settings, pace=pace) as cluster, asyncio.timeout(10):
        await stop(cluster, ref("going"), by="mia")
        assert (await cluster.api.list(JOBS_PATH))["items"] == []
    assert not server.faults[verb]  # it went right then


async def test_a_stop_that_is_refused_all_the_time_names_the_job(server: FakeServer, settings: Settings) -> None:
    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "stuck"))
    server.faults["delete"].extend([answers(500, "InternalError", "no leader", Retry_After="9")] * 2)
    async with open_cluster(settings, pace=Pace(tries=5)) as cluster:
        with pytest.raises(BackendUnavailable, match=r"pytorchjobs/train.*no leader"):
            await stop(cluster, ref("stuck"), by="mia")


async def test_a_stop_leaves_another_job_of_the_same_name_alone(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(JOBS_PATH, of_run(PYTORCHJOBS, "train", "another"))
    async with open_cluster(settings, pace=pace) as cluster:
        await stop(cluster, ref("first"), by="mia")
    assert (server.count("patch"), server.count("delete")) == (0, 0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(module, "_SLACK_SECONDS", 0.0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("asked", "given", "waited"), [(1, None, 1), (60, 2, 2), (0, None, 0.5)])
async def test_a_stop_has_the_patience_that_the_pods_were_given(
    asked: int, given: int | None, waited: float, server: FakeServer, settings: Settings
) -> None:
    pod = of_run(PODS, "train-master-0", "uid-of-a-pod")
    pod["spec"]["terminationGracePeriodSeconds"] = asked
    if given is not None:
        pod["metadata"]["deletionGracePeriodSeconds"] = given
    server.put(PODS_PATH, pod)
    async with open_cluster(settings) as cluster:
        with pytest.raises(BackendUnavailable, match=f"train-master-0 has not ended {waited} s later"):
            await stop(cluster, ref("gone"), by="mia")
