"""Runs of several contexts, some of which may lead to the same cluster."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import Phase
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer
from tests.unit.backends.kubernetes.cluster.fake_server import status as answer_of

CATALOG: dict[str, Any] = {
    "clusters": [
        {"region": "east", "cluster": "a", "context": "here"},
        {"region": "west", "cluster": "b", "context": "there", "namespace": "jobs"},
    ]
}


def job(name: str, namespace: str, hour: int) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/attempt": "1"}
    metadata = {"name": name, "namespace": namespace, "labels": {**labels, "siflow-provider/run": f"run-{hour}"}}
    return {"metadata": {**metadata, "uid": f"uid-{hour}", "creationTimestamp": f"2026-05-01T{hour}:00:00Z"}}


async def test_a_run_that_two_contexts_lead_to_is_shown_once_and_the_newest_of_all_is_the_first(
    server: FakeServer, settings: Settings
) -> None:
    server.put(PYTORCHJOBS.path("ml"), job("old", "ml", 10))
    server.put(PYTORCHJOBS.path("ml"), job("same-name", "ml", 11))
    server.put(PYTORCHJOBS.path("jobs"), job("same-name", "jobs", 12))
    async with KubernetesBackend(settings.model_copy(update={"catalog": CATALOG})) as backend:
        runs = await backend.runs()
        assert [status.ref.uid for status in runs] == ["uid-12", "uid-11", "uid-10"]
        assert [status.ref.context for status in runs] == ["there", "", ""]


async def test_a_run_whose_pods_may_not_be_listed_is_as_its_operator_says(
    server: FakeServer, settings: Settings
) -> None:
    async def no_pods(request: web.Request) -> web.StreamResponse | None:
        return answer_of(403, "Forbidden", "may not") if request.path.endswith("/pods") else None

    running = {"conditions": [{"type": "Running", "status": "True", "lastTransitionTime": "2026-05-01T10:05:00Z"}]}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}}}
    server.put(PYTORCHJOBS.path("ml"), {**job("train", "ml", 13), "spec": spec, "status": running})
    server.faults["list"].extend([no_pods] * 20)
    async with KubernetesBackend(settings) as backend:
        assert [status.phase for status in await backend.runs()] == [Phase.RUNNING]
