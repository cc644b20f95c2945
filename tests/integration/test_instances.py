"""A task that lists several instances, each with a queue of its own in a real Kueue."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import launch
from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.life import Told, run_to_end, start, until_phase
from tests.control_plane.admin import Admin, Object
from tests.control_plane.queues import GPU, Queues
from tests.integration.kubernetes_tasks import path, task

QUEUE = "kueue.x-k8s.io/queue-name"
LISTED = {
    "type": "on_demand",
    "instances": [{"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}],
    "fallback_after": "4s",
}


def on(*queues: str, **form: Any) -> ResolvedTask:
    """Return a task of two GPUs whose instances lead to these queues, in this order."""
    made = task(None, gpus=2, **form)
    flavors = tuple(replace(made.flavors[0], instance=f"gpu-{queue}", queue=queue) for queue in queues)
    return replace(made, flavors=flavors)


async def taken(admin: Admin, backend: KubernetesBackend, queue: str) -> JobRef:
    """Have the two GPUs of a queue in use, and its ClusterQueue say so."""
    ref = await start(backend, on(queue, fake={"duration": "600"}))
    await until_phase(backend, ref, Phase.RUNNING)
    local = await asyncio.to_thread(admin.find, admin.path("LocalQueue", queue, ref.namespace))
    assert local is not None
    cluster_queue = admin.path("ClusterQueue", local["spec"]["clusterQueue"])
    await asyncio.to_thread(admin.wait, cluster_queue, is_full, "its GPUs are reserved")
    return ref


def is_full(cluster_queue: Object | None) -> bool:
    (flavor,) = ((cluster_queue or {}).get("status") or {}).get("flavorsReservation") or [{"resources": []}]
    return any(each["name"] == GPU and each["total"] == "2" for each in flavor["resources"])


async def queue_of(admin: Admin, ref: JobRef) -> str | None:
    found = await asyncio.to_thread(admin.find, path(admin, ref))
    return None if found is None else str(found["metadata"]["labels"][QUEUE])


async def test_a_task_goes_to_the_first_instance_with_room_and_else_waits_at_the_first_that_could_ever_take_it(
    admin: Admin, backend: KubernetesBackend, queues: Queues
) -> None:
    small, full, free = queues.queue("kwok", GPU=1), queues.queue("kwok", GPU=2), queues.queue("kwok", GPU=2)
    await taken(admin, backend, full)
    for listed, chosen in (((small, full, free), free), ((small, full), full)):
        context = RenderContext(identity=Identity.random(), user_name="mia")
        launched = await launch(backend, on(*listed), context, quota="require", reporter=Told())
        assert await queue_of(admin, launched.ref) == chosen
        assert listed[launched.flavor] == chosen


class Submitted(Told):
    """Says when a job was submitted."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted = asyncio.Event()

    def note(self, text: str, *, warning: bool = False) -> None:
        super().note(text, warning=warning)
        if text.startswith("submitted"):
            self.submitted.set()


async def test_a_task_that_waits_too_long_moves_to_an_instance_that_has_room_by_then(
    admin: Admin, backend: KubernetesBackend, queues: Queues
) -> None:
    first, second = queues.queue("kwok", GPU=2), queues.queue("kwok", GPU=2)
    _, goes = [await taken(admin, backend, queue) for queue in (first, second)]
    told = Submitted()
    running = asyncio.create_task(run_to_end(backend, on(first, second, compute=LISTED, fake={"duration": "1"}), told))
    async with asyncio.timeout(60):
        await told.submitted.wait()
    await backend.delete(goes)
    ended, (old, new) = await running
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert (new.attempt, new.name) == (2, f"{old.name}-2")
    assert await queue_of(admin, old) is None
    assert await queue_of(admin, new) == second
    moved = f"moving from gpu-{first} to gpu-{second}, which has room now; the place in the old queue is given up"
    assert moved in told.notes
