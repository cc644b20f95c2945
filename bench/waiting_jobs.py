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
from typing import Any

from bench.copies import as_new, copied, fill
from bench.waiting_triggers import JOBS, OURS, PODS
from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.shared import JOB_UID
from siflow_provider.backends.kubernetes.life.marks import ref_of
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.plane import ControlPlane, Part
from tests.control_plane.queues import GPU, Queues, Quota

AT_ONCE = 16
CONTROLLERS: tuple[Part, ...] = ("kueue", "training-operator")
STILL_FROM = 5000
"""From so many jobs on the controllers stand still: on two cores they would work for half an hour through what is new
to them, while the API server hardly answers. Places in the queue are then not told."""
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
        plane: the control plane.
        admin: its client.
        namespace: where the jobs go.
        queues: makes the queue.
        trigger: whose jobs.
    """

    plane: ControlPlane
    admin: Admin
    namespace: str
    queues: Queues
    trigger: str

    def make(self, count: int, seconds: float) -> list[dict[str, Any]]:
        """Return `count` jobs that wait.

        The first is made as users make it. On a control plane of our own the others are written into its store as the
        controllers left that one, which takes seconds; on another one they are made by requests.

        Raises:
            TooSlow: they were not made within `seconds`.
        """
        end = time.monotonic() + seconds
        patterns = self._queued_job(count, end) if self.trigger == OURS else [self._first()]
        if self.plane.state is not None:
            copies = [copied(patterns, number) for number in range(count - 1)]
            fill(self.plane, [one for each in copies for one in each])
            jobs = [each[0] for each in copies]
            if count >= STILL_FROM:
                for part in CONTROLLERS:
                    self.plane.pause(part)
        else:
            jobs = self._created(patterns[0], count - 1, end)
        if self.trigger == OURS:
            self._await_workloads(count + 1, end)
            refs = [ref_of(job, context="") for job in (patterns[0], *jobs)]
            return [ref.model_dump(mode="json") for ref in refs if ref is not None]
        return [{"name": job["metadata"]["name"]} for job in (patterns[0], *jobs)]

    def _queued_job(self, count: int, end: float) -> list[Object]:
        """Submit a job that takes the quota and one that waits; return that one and its Workload."""
        quota: Quota = {"cpu": count + 1, "memory": f"{count + 1}Gi", GPU: 1}
        cluster_queue = self.queues.cluster_queue({self.queues.flavor(): quota}, queueingStrategy="BestEffortFIFO")
        queue = self.queues.local_queue(cluster_queue)
        asyncio.run(self._submit(queue))
        self._await(lambda found: any(_is(one, "Admitted") for one in found), "the first is to run", end)
        ref = asyncio.run(self._submit(queue))

        def waits(found: list[Object]) -> bool:
            return len(found) > 1 and all(condition(one, "QuotaReserved") for one in found)

        workloads = self._await(waits, "the second is to wait", end)
        job = self._once_told(self._path(ref.name), "Suspended")
        return [job, next(one for one in workloads if one["metadata"]["labels"][JOB_UID] == ref.uid)]

    def _first(self) -> Object:
        body = _suspended_job if self.trigger == JOBS else _gated_pod
        self.admin.create(body("waiting", self.namespace))
        return self._once_told(self._path("waiting"), "Suspended" if self.trigger == JOBS else "PodScheduled")

    def _once_told(self, path: str, kind: str) -> Object:
        found = self.admin.wait(path, lambda found: condition(found, kind) != "", f"{kind} or not")
        assert found is not None
        return found

    def _created(self, pattern: Object, count: int, end: float) -> list[Object]:
        bodies = [as_new(copied([pattern], number)[0]) for number in range(count)]

        def one(number: int) -> Object:
            if time.monotonic() > end:
                raise TooSlow(f"only {number} of {count} were made")
            return self.admin.create(bodies[number])

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(one, range(count)))

    async def _submit(self, queue: str) -> JobRef:
        flavor = Flavor(instance="any", resources=Resources.of({GPU: "1"}), queue=queue, node_selector={"type": "kwok"})
        task = ResolvedTask(
            task=PyTorchJob.model_validate(_FORM), image="any:1", env={}, hidden={}, flavors=(flavor,), mounts=()
        )
        options = {"kube_config_path": str(self.plane.kubeconfig), "namespace": self.namespace}
        async with KubernetesBackend(Settings(backend="kubernetes", kubernetes=options)) as backend:
            context = RenderContext(identity=Identity.random(), user_name="bench")
            return await backend.submit(backend.render(task, context))

    def _await(self, done: Callable[[list[Object]], bool], what: str, end: float) -> list[Object]:
        """Wait until the first Workloads are as wanted."""
        path = self.admin.path("Workload", namespace=self.namespace)
        while time.monotonic() < end:
            found = self.admin.items(path)
            if done(found):
                return found
            time.sleep(1)
        raise TooSlow(f"{what}: Kueue has not come so far")

    def _await_workloads(self, count: int, end: float) -> None:
        path, there = self.admin.path("Workload", namespace=self.namespace), 0
        while time.monotonic() < end:
            page = self.admin.request("GET", path, params={"limit": 1})
            there = len(page["items"]) + (page["metadata"].get("remainingItemCount") or 0)
            if there >= count:
                return
            time.sleep(1)
        raise TooSlow(f"of {count} Workloads there were only {there}")

    def end(self, waiting: list[dict[str, Any]], pause: float) -> dict[str, tuple[float, float]]:
        """End the jobs one after the other; return when each end was sent off, and when it was known to be written."""
        ended = {}
        for one in waiting:
            name, status = one["name"], _ENDS[self.trigger]()
            sent = time.time()
            self.admin.patch(self._path(name), {"status": status}, sub="status")
            ended[name] = sent, time.time()
            time.sleep(pause)
        return ended

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


def _is(found: Object | None, kind: str) -> bool:
    return condition(found, kind) == "True"


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
