"""Makes jobs that wait, and ends some of them: what the triggers of `bench.waiting` look at.

All of it is real to the API server and its controllers: our jobs are PyTorchJobs suspended by Kueue in a queue whose
quota another job holds; the peers' are suspended Jobs and gated Pods. An end is written as a controller or kubelet
would, to the status subresource.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from bench.waiting_triggers import JOBS, OURS, PODS
from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.life.marks import LABEL_RUN, ref_of
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.queues import GPU, Queues, Quota

_T = TypeVar("_T")
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
            return self._queued_jobs(count, end)
        body = _suspended_job if self.trigger == JOBS else _gated_pod
        names = [f"waiting-{number}" for number in range(count)]
        _each(names, lambda name: self.admin.create(body(name, self.namespace)), end)
        return [{"name": name} for name in names]

    def _queued_jobs(self, count: int, end: float) -> list[dict[str, Any]]:
        """Submit a job that takes the quota and one that waits, and make the others as copies of that one."""
        quota: Quota = {"cpu": count + 1, "memory": f"{count + 1}Gi", GPU: 1}
        cluster_queue = self.queues.cluster_queue({self.queues.flavor(): quota}, queueingStrategy="BestEffortFIFO")
        queue = self.queues.local_queue(cluster_queue)
        first = asyncio.run(self._submit(queue))
        admitted = "the first is to run"
        self._await(lambda found: any(condition(one, "Admitted") == "True" for one in found), admitted, end)
        second = asyncio.run(self._submit(queue))
        pattern = self.admin.request("GET", self._path(second.name))
        jobs = [pattern, *_each(range(count - 1), lambda number: self.admin.create(_copy(pattern, number)), end)]
        self._await(lambda found: len(found) > count, f"{count} PyTorchJobs are to be queued", end)
        refs = [ref_of(job, context=first.context) for job in jobs]
        return [ref.model_dump(mode="json") for ref in refs if ref is not None]

    async def _submit(self, queue: str) -> JobRef:
        flavor = Flavor(instance="any", resources=Resources.of({GPU: "1"}), queue=queue, node_selector={"type": "kwok"})
        task = ResolvedTask(
            task=PyTorchJob.model_validate(_FORM), image="any:1", env={}, hidden={}, flavors=(flavor,), mounts=()
        )
        options = {"kube_config_path": str(self.kubeconfig), "namespace": self.namespace}
        async with KubernetesBackend(Settings(backend="kubernetes", kubernetes=options)) as backend:
            context = RenderContext(identity=Identity.random(), user_name="bench")
            return await backend.submit(backend.render(task, context))

    def _await(self, done: Callable[[list[Object]], bool], what: str, end: float) -> None:
        """Wait until Kueue's Workloads are as wanted."""
        path = self.admin.path("Workload", namespace=self.namespace)
        while time.monotonic() < end:
            found = self.admin.items(path)
            if done(found):
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


def _each(given: Sequence[_T], work: Callable[[_T], Object], end: float) -> list[Object]:
    def one(number: int) -> Object:
        if time.monotonic() > end:
            raise TooSlow(f"only {number} of {len(given)} were made")
        return work(given[number])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(len(given))))


def _copy(job: Object, number: int) -> Object:
    """Return the job as another run would be submitted."""
    metadata = job["metadata"]
    marks = {"labels": {**metadata["labels"], LABEL_RUN: str(uuid4())}, "annotations": metadata["annotations"]}
    named = {"name": f"{metadata['name']}-{number}", "namespace": metadata["namespace"], **marks}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": named, "spec": job["spec"]}


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
