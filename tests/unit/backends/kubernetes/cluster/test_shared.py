"""Tasks of one event loop share one connection, one list and one watch of each kind; the last one closes all."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace

import pytest

from siflow_provider.backends.kubernetes.cluster import shared
from siflow_provider.backends.kubernetes.cluster.login import Login
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import (
    CLUSTERQUEUES,
    EVENTS,
    PODS,
    PYTORCHJOBS,
    RAYJOBS,
    WORKLOADS,
    job_resource,
)
from siflow_provider.backends.kubernetes.cluster.shared import event_key, open_cluster, run_key, uid_key
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.errors import UsageError
from tests.unit.backends.kubernetes.cluster.conftest import connection
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer


async def test_five_hundred_tasks_log_in_once_and_watch_each_kind_once(
    server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = []
    enter = Login.enter

    async def counted(login: Login) -> object:
        logins.append(login)
        return await enter(login)

    monkeypatch.setattr(Login, "enter", counted)
    ready, leave = asyncio.Barrier(501), asyncio.Event()

    async def task() -> None:
        # each task read the connection for itself
        async with open_cluster(connection(server.url), pace=pace) as cluster:
            for resource in (PYTORCHJOBS, PODS, WORKLOADS):
                store = cluster.store(resource)
                await store.ready()
            await ready.wait()
            await leave.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(500):
            group.create_task(task())
        await ready.wait()
        await server.watched(3)
        leave.set()
    assert len(logins) == 1
    assert (server.count("list"), server.count("watch")) == (3, 3)


async def test_the_last_one_closes_and_the_next_one_opens_anew(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async with open_cluster(settings, pace=pace) as first:
        async with open_cluster(settings, pace=pace) as second:
            assert second is first
        await first.store(PODS).ready()
        await server.watched()
    async with open_cluster(settings, pace=pace) as third:
        assert third is not first
        await third.store(PODS).ready()
    assert server.count("list") == 2


async def test_another_context_is_another_connection(settings: Settings, pace: Pace) -> None:
    async with open_cluster(settings, pace=pace) as here, open_cluster(settings, "there", pace=pace) as there:
        assert here is not there
        assert (here.namespace, there.namespace) == ("ml", "default")


async def test_another_loop_has_a_connection_of_its_own(server: FakeServer, settings: Settings, pace: Pace) -> None:
    async def elsewhere() -> shared.Cluster:
        async with open_cluster(settings, pace=replace(pace, sleep=asyncio.sleep)) as cluster:
            await cluster.api.get("/version")
            return cluster

    server.documents["/version"] = {}
    async with open_cluster(settings, pace=pace) as here:
        there = await asyncio.to_thread(asyncio.run, elsewhere())
        assert there is not here


async def test_a_wrong_connection_fails_for_each_who_asks_and_leaves_nothing_behind(pace: Pace) -> None:
    wrong = Settings(backend="kubernetes", kubernetes={"kube_config_path": "/no/such/file"})

    async def one() -> None:
        async with open_cluster(wrong, pace=pace):
            pass

    results = await asyncio.gather(one(), one(), one(), return_exceptions=True)
    assert all(isinstance(result, UsageError) for result in results)


async def test_whoever_is_cancelled_while_opening_leaves_the_others_be(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async def one() -> str:
        async with open_cluster(settings, pace=pace) as cluster:
            return cluster.namespace

    tasks = [asyncio.create_task(one()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == ["ml", "ml"]


async def test_nothing_is_left_open_when_it_ends_by_an_error(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async def fails() -> None:
        async with open_cluster(settings, pace=pace) as cluster:
            cluster.store(PODS)
            cluster.store(EVENTS)
            await server.watched(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    await server.watched_no_more()
    assert [task for task in asyncio.all_tasks() if "siflow_provider" in repr(task)] == []
    gc.collect()  # an unclosed session would warn, and warnings are errors


async def test_stores_ask_for_what_is_ours_and_for_all_workloads(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async with open_cluster(settings, pace=pace) as cluster:
        for resource in (RAYJOBS, WORKLOADS, CLUSTERQUEUES):
            await cluster.store(resource, "team").ready()
        assert cluster.store(CLUSTERQUEUES) is cluster.store(CLUSTERQUEUES, "team")
    asked = {request.path: request.query.get("labelSelector") for request in server.requests if request.verb == "list"}
    assert asked == {
        "/apis/ray.io/v1/namespaces/team/rayjobs": "app.kubernetes.io/managed-by=siflow-provider",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads": None,
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues": None,
    }


async def test_what_the_cluster_has_is_asked_for_once(server: FakeServer, settings: Settings, pace: Pace) -> None:
    def group(name: str, *versions: str) -> dict[str, object]:
        served = [{"version": version} for version in versions]
        return {"name": name, "versions": served, "preferredVersion": served[-1]}

    server.documents = {
        "/apis": {"groups": [group("kubeflow.org", "v2beta1", "v1"), group("kueue.x-k8s.io", "v1beta1", "v1beta2")]},
        "/apis/kubeflow.org/v1": {"resources": [{"name": "mpijobs"}]},
        "/apis/kueue.x-k8s.io/v1beta2": {"resources": [{"name": "workloads"}]},
    }
    async with open_cluster(settings, pace=pace) as cluster:
        found, again = await asyncio.gather(cluster.features(), cluster.features())
    assert found is again
    assert (found.kueue, found.pytorchjob, found.rayjob, found.trainjob, found.podmonitor) == (True, *(False,) * 4)
    assert found.versions["kueue.x-k8s.io"] == ("v1beta2", "v1beta1")
    assert len(server.requests) == 3


def test_runs_workloads_and_events_are_found_by_their_keys() -> None:
    identity = Identity(dag_id="d", task_id="t", run_id="r", attempt=2)
    assert run_key({"metadata": {"labels": identity.labels()}}) == f"{identity.task_uuid}/2"
    assert run_key({"metadata": {}}) is None
    assert uid_key({"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "u"}}}) == "u"
    assert uid_key({"metadata": {}}) is None
    assert event_key({"metadata": {}, "involvedObject": {"uid": "u"}}) == "u"
    assert event_key({"metadata": {}}) is None


def test_paths_are_those_of_the_api_server() -> None:
    assert PODS.path("ml", "a", "log") == "/api/v1/namespaces/ml/pods/a/log"
    assert CLUSTERQUEUES.path("ml", "q") == "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q"
    assert WORKLOADS.at("v1beta1").path() == "/apis/kueue.x-k8s.io/v1beta1/workloads"
    assert job_resource("PyTorchJob") is PYTORCHJOBS
    with pytest.raises(UsageError, match="'Pod' is no kind"):
        job_resource("Pod")
