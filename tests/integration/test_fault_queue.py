"""A queue that takes a running job's place, again and again, costs its user neither the try nor the clocks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.outcome import OutcomeKind, RunEnd
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.run import run
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.life import Told, until, until_phase
from tests.control_plane.admin import Admin
from tests.control_plane.queues import GPU, Queues, Quota
from tests.integration.kubernetes_tasks import manifest, task

_CLOCK_SECONDS = 10
_PREEMPTS = {"withinClusterQueue": "LowerPriority"}


class Followed:
    """A run in the background, as an operator has it, and what its user is told."""

    def __init__(self, backend: KubernetesBackend, what: ResolvedTask) -> None:
        self.told = Told()
        self.refs: list[JobRef] = []
        self.first: asyncio.Future[JobRef] = asyncio.get_running_loop().create_future()
        context = RenderContext(identity=Identity.random())
        self.ending: asyncio.Task[RunEnd] = asyncio.create_task(
            run(backend, what, context, follow_policy(what), self.told, quota="ignore", on_ref=self._published)
        )

    def _published(self, ref: JobRef) -> None:
        self.refs.append(ref)
        if not self.first.done():
            self.first.set_result(ref)


async def test_a_job_that_is_preempted_twice_succeeds_in_its_first_attempt(
    admin: Admin, backend: KubernetesBackend, queues: Queues
) -> None:
    quota: Quota = {"cpu": 100, "memory": "1Ti", GPU: 1}
    queue = queues.local_queue(queues.cluster_queue({queues.flavor(): quota}, preemption=_PREEMPTS))
    low = replace(task(queue), priority_class=queues.priority(1))
    high = replace(task(queue), priority_class=queues.priority(9))
    followed = Followed(backend, low)
    ref = await followed.first
    for requeues in (1, 2):
        await until_phase(backend, ref, Phase.RUNNING)
        rival = await backend.submit(manifest(backend, high))
        status = await until(backend, ref, lambda seen: seen.phase is Phase.QUEUED)
        assert status.queue is not None
        assert (status.queue.requeues, status.queue.reason) == (
            requeues, "preempted by a job of higher priority in the same queue",
        )  # fmt: skip
        await until_phase(backend, rival, Phase.RUNNING)
        await backend.stop(rival, by="mia")
    await until_phase(backend, ref, Phase.RUNNING)
    await asyncio.to_thread(_end_well, admin, ref)
    async with asyncio.timeout(60):
        ended = await followed.ending
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert followed.refs == [ref]
    preempted = [note for note in followed.told.everything.splitlines() if "preempted by" in note]
    assert len(preempted) >= 2, followed.told.everything


async def test_a_job_that_is_put_on_hold_by_hand_is_queued_and_does_not_count_as_hanging(
    admin: Admin, backend: KubernetesBackend, queues: Queues, namespace: str
) -> None:
    what = task(queues.queue(GPU=1), fault_tolerance={"hang_timeout": f"{_CLOCK_SECONDS}s"})
    followed = Followed(backend, what)
    ref = await followed.first
    await until_phase(backend, ref, Phase.RUNNING)
    (workload,) = admin.items(admin.path("Workload", namespace=namespace))
    path = admin.path("Workload", workload["metadata"]["name"], namespace)
    await asyncio.to_thread(admin.patch, path, {"spec": {"active": False}})
    held = await until_phase(backend, ref, Phase.QUEUED)
    assert held.queue is not None
    assert "deactivated" in held.queue.reason
    await asyncio.wait({followed.ending}, timeout=_CLOCK_SECONDS + 1)
    assert not followed.ending.done(), followed.told.everything
    await asyncio.to_thread(admin.patch, path, {"spec": {"active": True}})
    await until_phase(backend, ref, Phase.RUNNING)
    await asyncio.to_thread(_end_well, admin, ref)
    async with asyncio.timeout(60):
        assert (await followed.ending).outcome.kind is OutcomeKind.SUCCEEDED


def _end_well(admin: Admin, ref: JobRef) -> None:
    admin.annotate(admin.path("Pod", f"{ref.name}-master-0", ref.namespace), exit_code="0", duration="0")
