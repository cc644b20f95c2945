"""Makes jobs that wait, and ends some of them: what the triggers of `bench.waiting` look at.

All of it is real to the API server and its controllers: our jobs are PyTorchJobs suspended by Kueue in a queue whose
quota another job holds; the peers' are suspended Jobs and gated Pods. An end is written as a controller or kubelet
would, to the status subresource.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.waiting_triggers import JOBS, OURS, PODS
from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.errors import BackendError
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.queues import GPU, Queues

AT_ONCE = 16
_FORM = {
    "image": "any:1",
    "command": "true",
    "workers": 0,
    "compute": {"type": "on_demand", "instances": [{"cpu": "1", "memory": "1Gi"}]},
}


class TooSlow(Exception):
    """The cluster did not make the jobs in the time given."""


@dataclass(frozen=True)
class Maker:
    """Makes and ends the jobs of one trigger's kind in one namespace.

    Attributes:
        admin: client of the cluster.
        kubeconfig: where it is.
        namespace: where the jobs go.
        queues: makes the queue.
        trigger: whose jobs.
    """

    admin: Admin
    kubeconfig: Path
    namespace: str
    queues: Queues
    trigger: str

    def make(self, count: int, seconds: float) -> list[dict[str, Any]]:
        """Return `count` jobs that wait.

        Raises:
            TooSlow: they were not made within `seconds`.
        """
        end = time.monotonic() + seconds
        if self.trigger == OURS:
            queue = self.queues.local_queue(
                self.queues.cluster_queue(
                    {self.queues.flavor(): {"cpu": count + 1, "memory": f"{count + 1}Gi", GPU: 1}},
                    queueingStrategy="StrictFIFO",
                )
            )
            made = asyncio.run(self._submit(queue, count + 1, end))
            self._await(lambda _, found: found > count, f"{count} PyTorchJobs are to be queued", end)
            return made[1:]  # the first holds the quota
        body = _suspended_job if self.trigger == JOBS else _gated_pod
        names = [f"waiting-{number}" for number in range(count)]
        _each(names, lambda name: self.admin.create(body(name, self.namespace)), end)
        return [{"name": name} for name in names]

    async def _submit(self, queue: str, count: int, end: float) -> list[dict[str, Any]]:
        flavor = Flavor(instance="any", resources=Resources.of({GPU: "1"}), queue=queue, node_selector={"type": "kwok"})
        task = ResolvedTask(
            task=PyTorchJob.model_validate(_FORM), image="any:1", env={}, hidden={}, flavors=(flavor,), mounts=()
        )
        options = {"kube_config_path": str(self.kubeconfig), "namespace": self.namespace}
        room = asyncio.Semaphore(AT_ONCE)
        made: list[dict[str, Any]] = []
        async with KubernetesBackend(Settings(backend="kubernetes", kubernetes=options)) as backend:

            async def one() -> None:
                async with room:
                    if time.monotonic() > end:
                        raise TooSlow(f"only {len(made)} of {count} PyTorchJobs were made")
                    context = RenderContext(identity=Identity.random(), user_name="bench")
                    ref = await backend.submit(backend.render(task, context))
                    made.append(ref.model_dump(mode="json"))

            await one()
            await asyncio.to_thread(
                self._await,
                lambda first, _: any(condition(one, "Admitted") == "True" for one in first),
                "the first is to run",
                end,
            )
            await _all_of([one() for _ in range(count - 1)])
        return made

    def _await(self, done: Callable[[list[Object], int], bool], what: str, end: float) -> None:
        """Wait until Kueue's Workloads are as wanted, and as many."""
        path = self.admin.path("Workload", namespace=self.namespace)
        while time.monotonic() < end:
            found = self.admin.items(path)
            if done(found, len(found)):
                return
            time.sleep(1 + len(found) / 500)
        raise TooSlow(f"{what}: Kueue has not come so far")

    def end(self, waiting: list[dict[str, Any]], pause: float) -> dict[str, float]:
        """End the jobs one after the other; return when each end was sent off, which is before it was written."""
        sent = {}
        for one in waiting:
            name, status = one["name"], _ENDS[self.trigger]()
            sent[name] = time.time()
            self.admin.patch(self._path(name), {"status": status}, sub="status")
            time.sleep(pause)
        return sent

    def _path(self, name: str) -> str:
        kind, version = _KINDS[self.trigger]
        return self.admin.path(kind, name, self.namespace, version)

    def close(self, seconds: float) -> None:
        """Remove everything, and wait for so long at most until it is gone: it would disturb the next."""
        self.queues.close()
        path = self.admin.path("Namespace", self.namespace)
        self.admin.delete(path)
        try:
            self.admin.wait(path, lambda found: found is None, "gone", seconds)
        except AssertionError:
            print(f"namespace {self.namespace} is still being removed")


_KINDS = {OURS: ("PyTorchJob", "kubeflow.org/v1"), JOBS: ("Job", "batch/v1"), PODS: ("Pod", "v1")}


async def _all_of(works: list[Any]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except* (TooSlow, BackendError) as errors:
        raise TooSlow(str(errors.exceptions[0])) from None


def _each(names: list[str], work: Callable[[str], object], end: float) -> None:
    def one(number: int) -> None:
        if time.monotonic() > end:
            raise TooSlow(f"only {number} of {len(names)} were made")
        work(names[number])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(len(names))))


def _pod_spec() -> Object:
    return {"restartPolicy": "Never", "containers": [{"name": "base", "image": "any:1", "command": ["true"]}]}


def _suspended_job(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"suspend": True, "template": {"spec": _pod_spec()}},
    }


def _gated_pod(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**_pod_spec(), "schedulingGates": [{"name": "bench.test/waits"}]},
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _true(kind: str) -> Object:
    return {"type": kind, "status": "True", "reason": "Bench", "message": "", "lastTransitionTime": _now()}


def _ended_training() -> Object:
    condition = {**_true("Succeeded"), "lastUpdateTime": _now()}
    return {"conditions": [condition], "completionTime": _now(), "replicaStatuses": {"Master": {"succeeded": 1}}}


def _ended_job() -> Object:
    return {"conditions": [_true("FailureTarget"), _true("Failed")], "startTime": _now()}


def _ended_pod() -> Object:
    over = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}}
    container = {"name": "base", "image": "any:1", "imageID": "", "ready": False, "restartCount": 0, "state": over}
    return {"phase": "Succeeded", "containerStatuses": [container]}


_ENDS = {OURS: _ended_training, JOBS: _ended_job, PODS: _ended_pod}
