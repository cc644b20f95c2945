"""What is told of a run by who begins to wait for it late, as a triggerer does that was restarted."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import EVENTS, PYTORCHJOBS
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life.watch import watch
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef, Phase
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer

REF = JobRef(
    backend="kubernetes", kind="PyTorchJob", name="train", namespace="ml", uid="late", task_uuid="0b5c", attempt=1
)
FAILED = {"type": "Failed", "status": "True", "message": "it failed", "lastTransitionTime": "2026-05-01T11:00:00Z"}


def failed_job() -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": "0b5c"}
    metadata = {"name": "train", "namespace": "ml", "uid": "late", "creationTimestamp": "2026-05-01T10:00:00Z"}
    return {
        "metadata": {**metadata, "labels": {**labels, "siflow-provider/attempt": "1"}},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1}}},
        "status": {"conditions": [FAILED], "completionTime": "2026-05-01T11:00:00Z"},
    }


def warning() -> dict[str, Any]:
    return {
        "metadata": {"name": "train.1", "namespace": "ml", "creationTimestamp": "2026-05-01T10:30:00Z"},
        "involvedObject": {"kind": "PyTorchJob", "name": "train", "uid": "late"},
        "type": "Warning",
        "reason": "BackoffLimitExceeded",
        "message": "it was tried too often",
    }


async def test_who_sees_only_the_end_of_a_failed_run_is_told_the_warnings_too(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(PYTORCHJOBS.path("ml"), failed_job())
    server.put(EVENTS.path("ml"), warning())
    async with open_cluster(settings, pace=pace) as cluster:
        statuses = [status async for status in watch(cluster, REF)]
    assert [status.phase for status in statuses] == [Phase.FAILED]
    assert statuses[0].failure is not None
    assert [text for text in statuses[0].failure.events if "it was tried too often" in text] != []
