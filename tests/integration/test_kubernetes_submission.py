"""What a submission leaves in a real cluster, whatever breaks in the middle of it."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import launch
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.run import run
from siflow_provider.core.status import FailureClass, JobRef, Phase
from siflow_provider.errors import BackendUnavailable, NameTaken, NoRoomYet
from tests.contract.life import Told, until_phase
from tests.control_plane.admin import Admin
from tests.control_plane.queues import Queues
from tests.integration.kubernetes_tasks import manifest, owners, path, task


@pytest.fixture
def queue(queues: Queues) -> str:
    return queues.queue("kwok", GPU=1)


async def test_what_belongs_to_a_job_goes_with_it(admin: Admin, backend: KubernetesBackend, queue: str) -> None:
    ref = await backend.submit(manifest(backend, task(queue, ssh=True)))
    belongings = [path(admin, ref, kind, end) for kind, end in (("Secret", "-env"), ("ConfigMap", "-files"))]
    for each in belongings:
        assert owners(admin.find(each)) == [ref.uid]
    await backend.delete(ref)
    for each in belongings:
        await asyncio.to_thread(admin.wait, each, lambda found: found is None, "gone with the job")


async def test_hidden_values_stand_in_their_secret_and_nowhere_else(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    ref = await backend.submit(manifest(backend, task(queue)))
    secret = admin.find(path(admin, ref, "Secret", "-env"))
    assert secret is not None
    assert base64.b64decode(secret["data"]["TOKEN"]) == b"canary-of-the-test"
    assert "canary-of-the-test" not in str(admin.find(path(admin, ref)))
    status = await backend.status(ref)
    assert status.veil.over("is it canary-of-the-test?") == "is it ***?"


async def test_an_ssh_key_is_fresh_for_each_run_and_kept_for_its_pods(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    keys = []
    for _ in range(2):
        sent = manifest(backend, task(queue, ssh=True))
        ref = await backend.submit(sent)
        first = admin.find(path(admin, ref, "Secret", "-env"))
        assert await backend.submit(sent) == ref
        assert admin.find(path(admin, ref, "Secret", "-env")) == first
        assert first is not None
        data = {name: base64.b64decode(value) for name, value in first["data"].items()}
        private = load_ssh_private_key(data["ssh-key"], None)
        assert private.public_key() == load_ssh_public_key(data["ssh-key.pub"])
        keys.append(data["ssh-key"])
    assert keys[0] != keys[1]


async def test_a_worker_that_dies_after_the_job_leaves_one_job_that_the_next_one_completes(
    admin: Admin, backend: KubernetesBackend, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, what = Identity.random(), task(queue, ssh=True)
    create = Api.create

    async def dies(self: Api, collection: str, body: Any, **options: Any) -> Any:
        made = await create(self, collection, body, **options)
        if body["kind"] == "PyTorchJob":
            raise asyncio.CancelledError
        return made

    with monkeypatch.context() as broken:
        broken.setattr(Api, "create", dies)
        with pytest.raises(asyncio.CancelledError):
            await backend.submit(manifest(backend, what, identity))
    ref = await backend.find(identity)
    assert ref is not None
    assert admin.find(path(admin, ref, "Secret", "-env")) is None
    launched = await launch(backend, what, RenderContext(identity=identity), quota="ignore", reporter=Told())
    assert (launched.ref, launched.adopted) == (ref, True)
    for kind, end in (("Secret", "-env"), ("ConfigMap", "-files")):
        assert owners(admin.find(path(admin, ref, kind, end))) == [ref.uid]


async def test_what_an_earlier_job_of_the_name_left_is_not_used(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    sent = manifest(backend, task(queue))
    old = await backend.submit(sent)
    secret = path(admin, old, "Secret", "-env")
    admin.patch(secret, {"metadata": {"finalizers": ["test.example/kept"]}})
    await backend.delete(old)
    releasing = asyncio.create_task(asyncio.to_thread(_release, admin, secret))
    new = await _submit_patiently(backend, sent)
    await releasing
    assert new.uid != old.uid
    await asyncio.to_thread(admin.wait, secret, lambda found: found and owners(found) == [new.uid], "the new job's")


def _release(admin: Admin, secret: str) -> None:
    admin.wait(secret, lambda found: found and found["metadata"].get("deletionTimestamp"), "being removed")
    admin.patch(secret, {"metadata": {"finalizers": None}})


async def _submit_patiently(backend: KubernetesBackend, sent: Any) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await backend.submit(sent)
            except BackendUnavailable:
                await asyncio.sleep(0.5)


async def test_a_job_of_somebody_else_is_named_and_left_alone(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    sent = manifest(backend, task(queue))
    theirs = {**sent.documents[0], "metadata": {"name": sent.name, "namespace": backend_namespace(backend)}}
    made = admin.create(dict(theirs))
    with pytest.raises(NameTaken, match="test-admin"):
        await backend.submit(sent)
    assert admin.find(admin.path_of(made)) is not None


def backend_namespace(backend: KubernetesBackend) -> str:
    return str(backend._settings.kubernetes["namespace"])


async def test_an_impostor_of_the_same_name_is_neither_watched_nor_stopped(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    sent = manifest(backend, task(queue))
    ref = await backend.submit(sent)
    assert (await backend.status(ref)).phase is Phase.QUEUED  # who submits and looks is told of what was made just now
    job = admin.find(path(admin, ref))
    assert job is not None
    admin.delete(path(admin, ref))
    await asyncio.to_thread(admin.wait, path(admin, ref), lambda found: found is None, "gone")
    admin.create({key: job[key] for key in ("apiVersion", "kind", "spec")} | {
        "metadata": {key: job["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    })  # fmt: skip
    assert (await backend.status(ref)).phase is Phase.LOST
    assert [status.phase async for status in backend.watch(ref)][-1] is Phase.LOST
    await backend.stop(ref, by="mia")
    await backend.delete(ref)
    assert admin.find(path(admin, ref)) is not None


async def test_a_job_that_is_still_being_removed_is_waited_for(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    sent = manifest(backend, task(queue))
    old = await backend.submit(sent)
    admin.patch(path(admin, old), {"metadata": {"finalizers": ["test.example/kept"]}})
    admin.delete(path(admin, old))
    with pytest.raises(BackendUnavailable, match="being removed"):
        await backend.submit(sent)
    assert await backend.find(sent.context.identity) is None
    admin.patch(path(admin, old), {"metadata": {"finalizers": None}})
    assert (await _submit_patiently(backend, sent)).uid != old.uid


async def test_a_task_without_a_queue_starts_at_once(backend: KubernetesBackend) -> None:
    what = task(None, fake={"duration": "1"})
    ref = await backend.submit(manifest(backend, what))
    status = await until_phase(backend, ref, Phase.SUCCEEDED)
    assert status.queue is None
    assert [warning for warning in backend.warnings(what) if "no queue" in warning]


async def _without_room(admin: Admin, ref: JobRef) -> None:
    """Let the namespace have no room for another job than the one that is there."""
    used = {"count/pytorchjobs.kubeflow.org": "1"}
    metadata = {"name": "one", "namespace": ref.namespace}
    admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": used}, "metadata": metadata})
    quota = admin.path("ResourceQuota", "one", ref.namespace)
    await asyncio.to_thread(admin.wait, quota, lambda found: found and found.get("status", {}).get("used") == used)


async def test_a_namespace_without_room_for_the_job_is_waited_for(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    first = await backend.submit(manifest(backend, task(queue)))
    await _without_room(admin, first)
    what, told = task(queue, fake={"duration": "1"}), Told()
    with pytest.raises(NoRoomYet, match="exceeded quota"):
        await backend.submit(manifest(backend, what))
    context = RenderContext(identity=Identity.random())
    running = asyncio.create_task(run(backend, what, context, FollowPolicy(logs="none"), told, quota="ignore"))
    await told.until_warning("no room for ")
    await backend.delete(first)
    end = await running
    assert end.outcome.kind is OutcomeKind.SUCCEEDED
    assert len([warning for warning in told.warnings if "waiting for it: " in warning]) == 1
    assert end.summary()["queued_seconds"] >= 1


async def test_a_namespace_without_room_ends_the_wait_as_a_full_queue_does(
    admin: Admin, backend: KubernetesBackend, queue: str
) -> None:
    first = await backend.submit(manifest(backend, task(queue)))
    await _without_room(admin, first)
    context, told = RenderContext(identity=Identity.random()), Told()
    end = await run(backend, task(queue), context, FollowPolicy(queue_timeout=3), told, quota="ignore")
    failure = end.outcome.failure
    assert failure is not None
    assert failure.category is FailureClass.TIMEOUT
    assert failure.summary.startswith("queue_timeout of 3s: the task was in the queue longer than that (")
    assert "exceeded quota: one" in failure.summary
    assert await backend.find(context.identity) is None
    assert end.summary()["queued_seconds"] == pytest.approx(3, abs=2)
