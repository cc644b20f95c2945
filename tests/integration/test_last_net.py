"""A limit that holds though nobody of ours is left to watch the clock: the cluster's own."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import FailureClass, Kind, Phase
from tests.control_plane.admin import Admin
from tests.control_plane.queues import Queues
from tests.integration.kubernetes_tasks import task


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
async def test_the_cluster_ends_a_run_that_nobody_watches_any_more_and_that_is_told_as_a_timeout(
    admin: Admin, backend: KubernetesBackend, queues: Queues, kind: Kind
) -> None:
    what = task(queues.queue("kwok"), kind=kind)
    context = RenderContext(identity=Identity.random(), last_net_seconds=3)
    ref = await backend.submit(backend.render(what, context))
    pods = admin.path("Pod", namespace=ref.namespace)
    await asyncio.to_thread(admin.wait, pods, lambda found: (found or {}).get("items"), "its pods")
    await asyncio.to_thread(admin.wait, pods, lambda found: not (found or {}).get("items"), "no pod of it is left")
    status = await backend.status(ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert status.failure.category is FailureClass.TIMEOUT
    assert "Raise execution_timeout" in status.failure.hint
