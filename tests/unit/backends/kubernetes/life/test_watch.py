"""What is told of a run by who begins to wait for it late, as a triggerer does that was restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import EVENTS, PODS, PYTORCHJOBS, WORKLOADS
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life.look import look, note_made
from siflow_provider.backends.kubernetes.life.watch import watch
from siflow_provider.backends.kubernetes.queueing.source import positions_of
from siflow_provider.backends.settings import Settings
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef, Phase, Status
from tests.unit.backends.kubernetes.cluster.conftest import connection
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer
from tests.unit.backends.kubernetes.cluster.things import until

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


def pod(role: str, made: str, code: int | None, ended: str = "2026-05-01T11:00:00Z") -> dict[str, Any]:
    labels = {**failed_job()["metadata"]["labels"], "training.kubeflow.org/replica-type": role}
    metadata = {"name": f"train-{role}-0", "namespace": "ml", "uid": f"uid-{role}", "creationTimestamp": made}
    state = (
        {"running": {"startedAt": made}} if code is None else {"terminated": {"exitCode": code, "finishedAt": ended}}
    )
    return {
        "metadata": {**metadata, "labels": {**labels, "training.kubeflow.org/replica-index": "0"}},
        "spec": {"restartPolicy": "Never", "nodeName": "gpu-1", "containers": [{"name": "pytorch"}]},
        "status": {
            "phase": "Running" if code is None else "Failed",
            "containerStatuses": [{"name": "pytorch", "state": state}],
        },
    }


def admitted(job_uid: str, at: str) -> dict[str, Any]:
    metadata = {"name": "pytorchjob-train", "namespace": "ml", "labels": {"kueue.x-k8s.io/job-uid": job_uid}}
    return {
        "metadata": {**metadata, "creationTimestamp": "2026-05-01T09:00:00Z"},
        "status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": at}]},
    }


async def test_a_pod_that_the_queue_put_out_earlier_is_not_blamed_for_the_failure_of_a_later_stay(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    failed = failed_job()
    failed["metadata"]["uid"] = "requeued"
    failed["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpu"
    failed["spec"]["pytorchReplicaSpecs"]["Worker"] = {"replicas": 1}
    server.put(PYTORCHJOBS.path("ml"), {**failed, "status": {}})
    server.put(WORKLOADS.path("ml"), admitted("requeued", "2026-05-01T10:40:00Z"))
    server.put(PODS.path("ml"), pod("worker", "2026-05-01T10:05:00Z", 143, "2026-05-01T10:20:00Z"))
    server.put(PODS.path("ml"), pod("master", "2026-05-01T10:41:00Z", None))
    async with (
        open_cluster(settings, pace=pace) as cluster,
        closing_stream(watch(cluster, REF.model_copy(update={"uid": "requeued"}))) as statuses,
    ):
        assert not (await anext(statuses)).phase.terminal
        pods = cluster.store(PODS, "ml")
        await server.watched(3)
        server.remove(PODS.path("ml"), "train-worker-0")
        server.put(PODS.path("ml"), pod("master", "2026-05-01T10:41:00Z", 1))
        await until(pods, "0b5c/1", lambda: [each["status"]["phase"] for each in pods.objects("0b5c/1")] == ["Failed"])
        server.put(PYTORCHJOBS.path("ml"), failed)
        end = [status async for status in statuses][-1]
    assert end.failure is not None
    assert (end.failure.replica, end.failure.exit_code) == ("master-0", 1)


async def test_one_who_leaves_while_he_looks_for_all_leaves_nobody_waiting(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    running, ref = failed_job(), REF.model_copy(update={"uid": "shared"})
    running["metadata"]["uid"] = "shared"
    server.put(PYTORCHJOBS.path("ml"), {**running, "status": {}})
    async with open_cluster(settings, pace=pace) as cluster, closing_stream(watch(cluster, ref)) as statuses:
        assert not (await anext(statuses)).phase.terminal
        others = [asyncio.create_task(last_of(watch(cluster, ref))) for _ in range(3)]
        looking = asyncio.create_task(last_of(statuses))
        await server.watched(2)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        server.put(PYTORCHJOBS.path("ml"), running)
        async with asyncio.timeout(10):
            ends = await asyncio.gather(*others)
    assert [end.phase for end in ends] == [Phase.FAILED] * 3


async def last_of(statuses: AsyncIterator[Status]) -> Status:
    return [status async for status in statuses][-1]


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


async def test_a_login_that_is_not_taken_for_a_while_ends_nothing_and_blinds_for_nothing(
    server: FakeServer, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siflow_provider.backends.kubernetes.life.observer._OUTAGE_SECONDS", 0.05)
    failed = failed_job()
    failed["metadata"]["uid"] = "refused"
    server.put(PYTORCHJOBS.path("ml"), failed)
    server.put(PODS.path("ml"), pod("master", "2026-05-01T10:05:00Z", 3))
    server.token = "another"
    async with (
        open_cluster(connection(server.url, token="mine"), pace=pace) as cluster,
        closing_stream(watch(cluster, REF.model_copy(update={"uid": "refused"}))) as statuses,
    ):
        first = await anext(statuses)
        assert first.phase is Phase.UNKNOWN
        assert "401" in first.reason
        server.token = "mine"
        end = [status async for status in statuses][-1]
    assert end.failure is not None
    assert end.failure.exit_code == 3


def line_up(server: FakeServer, uid: str) -> tuple[JobRef, dict[str, Any]]:
    """Let a job wait for its queue; return its ref and the job."""
    job, waiting = failed_job(), admitted(uid, "")
    job["metadata"] |= {"uid": uid, "labels": {**job["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpu"}}
    suspended = {**job, "spec": {**job["spec"], "runPolicy": {"suspend": True}}, "status": {}}
    server.put(PYTORCHJOBS.path("ml"), suspended)
    server.put(WORKLOADS.path("ml"), {**waiting, "spec": {}, "status": {}})
    return REF.model_copy(update={"uid": uid}), suspended


async def test_an_end_is_told_while_the_question_for_the_place_in_the_queue_gets_no_answer(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    ref, job = line_up(server, "ends")

    async def no_answer(request: web.Request) -> web.StreamResponse | None:
        await asyncio.Event().wait()
        return None

    server.faults["get"].append(no_answer)
    async with open_cluster(settings, pace=pace) as cluster, closing_stream(watch(cluster, ref)) as statuses:
        async with asyncio.timeout(5):
            waiting = await anext(statuses)
        assert waiting.queue is not None
        assert waiting.queue.position is None
        succeeded = {**FAILED, "type": "Succeeded"}
        server.put(PYTORCHJOBS.path("ml"), {**job, "status": {**failed_job()["status"], "conditions": [succeeded]}})
        async with asyncio.timeout(1):
            assert (await anext(statuses)).phase is Phase.SUCCEEDED


async def test_a_place_in_a_queue_is_followed_on_when_the_one_who_asked_for_it_leaves(
    server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/ml/localqueues/gpu/pendingworkloads"
    asked, (ref, _) = asyncio.Event(), line_up(server, "waits")
    first = {"metadata": {"name": "first", "namespace": "ml"}, "positionInClusterQueue": 0}
    own = {"metadata": {**admitted("waits", "")["metadata"], "namespace": "ml"}, "positionInClusterQueue": 1}
    server.documents[line] = {"items": [first, own]}

    async def no_answer_yet(request: web.Request) -> web.StreamResponse | None:
        assert request.path == line
        asked.set()
        await asyncio.Event().wait()
        return None

    server.faults["get"].append(no_answer_yet)
    async with open_cluster(settings, pace=pace) as cluster, asyncio.timeout(10):
        monkeypatch.setattr(positions_of(cluster), "interval", 0.01)
        leaving = asyncio.create_task(last_of(watch(cluster, ref)))
        await asked.wait()
        async with closing_stream(watch(cluster, ref)) as statuses:
            staying = asyncio.ensure_future(anext(statuses))
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            assert (queue := (await staying).queue) is not None
            assert queue.position == 2
            server.documents[line] = {"items": [own]}
            async for status in statuses:
                if status.queue is not None and status.queue.position == 1:
                    return


async def test_a_follower_without_events_counts_failed_pulls_by_what_the_pods_show(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    pulling = failed_job()
    pulling["metadata"]["uid"] = "pulls"
    server.put(PYTORCHJOBS.path("ml"), {**pulling, "status": {}})

    def put(reason: str) -> None:
        waits = pod("master", "2026-05-01T10:05:00Z", None)
        states = [{"name": "pytorch", "state": {"waiting": {"reason": reason}}}]
        server.put(PODS.path("ml"), {**waits, "status": {"phase": "Pending", "containerStatuses": states}})

    put("ErrImagePull")
    ref, counts = REF.model_copy(update={"uid": "pulls"}), []
    async with open_cluster(settings, pace=pace) as cluster, closing_stream(watch(cluster, ref)) as statuses:
        for reason in ("ImagePullBackOff", "ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
            counts.append((await anext(statuses)).failed_pulls)
            await server.watched(2)
            put(reason)
        counts.append((await anext(statuses)).failed_pulls)
    assert counts == [1, 1, 2, 2, 3]


async def test_a_look_after_a_watch_shows_nothing_older(server: FakeServer, settings: Settings, pace: Pace) -> None:
    ref = REF.model_copy(update={"uid": "fresh"})
    made = {**failed_job(), "status": {}}
    made["metadata"]["uid"] = "fresh"
    server.put(PYTORCHJOBS.path("ml"), made)
    made = {**made, "spec": {**made["spec"], "runPolicy": {"suspend": True}}}  # it has been admitted since
    async with open_cluster(settings, pace=pace) as cluster:
        note_made(cluster, made)
        assert (await look(cluster, ref)).phase is Phase.QUEUED  # the answer to the creation, once
        note_made(cluster, made)
        async with closing_stream(watch(cluster, ref)) as statuses:
            assert (await anext(statuses)).phase is Phase.STARTING
        assert (await look(cluster, ref)).phase is Phase.STARTING
