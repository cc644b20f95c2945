"""What is told of a run while an operator is down, its kind is not served, or all nodes are lost under it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.identity import Identity
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.run import run
from siflow_provider.core.status import FailureClass, Phase
from tests.contract.life import Told, until_phase
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import own_place
from tests.integration.kubernetes_tasks import manifest, opened, task

_LOOK = "siflow_provider.backends.kubernetes.life.observer._LOOK_AGAIN_SECONDS"
_UNTAKEN = "siflow_provider.backends.kubernetes.state.missing.UNTAKEN_AFTER_SECONDS"


@pytest.fixture
def place(own_admin: Admin) -> Iterator[str]:
    """A namespace on a control plane that may be disturbed."""
    with own_place(own_admin) as queues:
        yield queues.namespace


@pytest.fixture
async def backend(own_control_plane: ControlPlane, place: str) -> AsyncIterator[KubernetesBackend]:
    async with opened(own_control_plane.kubeconfig, place) as made:
        yield made


async def test_job_that_no_operator_takes_says_so_and_ends_by_start_timeout_with_that_reason(
    own_control_plane: ControlPlane, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_UNTAKEN, 4.0)
    monkeypatch.setattr(_LOOK, 1.0)
    with own_control_plane.paused("kuberay"):
        ref = await backend.submit(manifest(backend, task(None, kind="RayJob", workers=1)))
        outcome = await follow(backend, ref, FollowPolicy(start_timeout=10.0), told := Told())
        assert outcome.failure is not None
        assert outcome.failure.category is FailureClass.TIMEOUT
        assert "KubeRay has not taken the job: does it run, and does it watch namespace" in outcome.failure.summary
        assert any("KubeRay has not taken the job" in text for text in told.notes), told.everything


async def test_submission_waits_for_an_operator_whose_webhook_is_down_and_makes_one_job(
    own_control_plane: ControlPlane, own_admin: Admin, backend: KubernetesBackend, place: str
) -> None:
    what, told = task(None, gpus=0, fake={"duration": "1"}), Told()
    own_control_plane.kill("training-operator")
    context = RenderContext(identity=Identity.random())
    running = asyncio.create_task(run(backend, what, context, FollowPolicy(), told, quota="ignore"))
    await told.until_warning("submitting ")
    await asyncio.to_thread(own_control_plane.start, "training-operator")
    async with asyncio.timeout(120):
        assert (await running).outcome.kind is OutcomeKind.SUCCEEDED, told.everything
    assert len(own_admin.items(own_admin.path("PyTorchJob", namespace=place, version="kubeflow.org/v1"))) == 1


async def test_nodes_that_do_not_answer_are_told_while_nobody_removes_their_pods_and_cost_nothing_once_they_are_back(
    own_control_plane: ControlPlane, own_admin: Admin, backend: KubernetesBackend
) -> None:
    """All nodes at once: then the cluster takes it for an outage of its own, and evicts nothing."""
    ref = await backend.submit(manifest(backend, task(None, workers=1)))
    running = await until_phase(backend, ref, Phase.RUNNING)
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    with own_control_plane.paused("kwok"):
        for replica in running.replicas:
            rank = f"{replica.name} (rank {replica.rank})"
            await told.until_note(f"{rank}: its node {replica.node} does not answer")
    for replica in running.replicas:
        path = own_admin.path("Pod", f"{ref.name}-{replica.name}", ref.namespace)
        await asyncio.to_thread(own_admin.annotate, path, exit_code="0", duration="0")
    async with asyncio.timeout(120):
        assert (await following).kind is OutcomeKind.SUCCEEDED
