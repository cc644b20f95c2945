"""Records the runs of `scenarios.py` on a real control plane with fake nodes.

    python -m tests.unit.backends.kubernetes.state.record KUBECONFIG [NAME ...]

Makes a namespace, a queue and priorities of its own, writes `recorded/NAME.json`, and removes what it made.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    CLUSTERQUEUES,
    CONFIGMAPS,
    EVENTS,
    LOCALQUEUES,
    NAMESPACES,
    PODS,
    PRIORITYCLASSES,
    RAYCLUSTERS,
    RESOURCEFLAVORS,
    WORKLOADS,
    Resource,
    job_resource,
)
from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.backends.kubernetes.state.objects import Seen, uid
from siflow_provider.backends.kubernetes.state.queue import newest_workload
from siflow_provider.backends.kubernetes.state.replicas import replica_names
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.merge_patch import apply_patch
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Status
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.unit.backends.kubernetes.state.recording import Recording
from tests.unit.backends.kubernetes.state.scenarios import SCENARIOS, Scenario
from tests.unit.backends.kubernetes.tasks import pytorch, ray, resolved

OWN = "state-recording"
LONGEST_SECONDS = 240.0
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LOOK_SECONDS = 0.3
_COVERED = {"cpu": 400, "memory": "4Ti", "nvidia.com/gpu": 8}


class Recorder:
    """Submits one run and looks at it."""

    def __init__(self, api: Api, scenario: Scenario) -> None:
        self.api, self.scenario, self.namespace = api, scenario, OWN
        self.recording: Recording | None = None
        self._seen = Seen()

    async def record(self) -> Recording:
        """Follow the run to its end and a little further."""
        if self.scenario.quota:
            quota = {"metadata": {"name": OWN}, "spec": {"hard": self.scenario.quota}}
            await self.api.create(QUOTAS.path(OWN), {"apiVersion": "v1", "kind": QUOTAS.kind, **quota})
        ref = await self.submit(self.scenario)
        self.recording = Recording(ref)
        acts, deadline = list(self.scenario.acts), asyncio.get_running_loop().time() + LONGEST_SECONDS
        status = await self.look()
        while not (status.phase.terminal and not status.leftover) and asyncio.get_running_loop().time() < deadline:
            if acts and acts[0][0](status):
                await acts.pop(0)[1](self, status)
            elif status.leftover:
                break
            await asyncio.sleep(LOOK_SECONDS)
            status = await self.look()
        await self.look_on(self.scenario.last)
        return self.recording

    async def look_on(self, seconds: float) -> None:
        """Look for some seconds and do nothing."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> Status:
        """Write down what is there now."""
        assert self.recording is not None
        ref = self.recording.ref
        run = {"labelSelector": f"siflow-provider/run={ref.task_uuid}"}
        pods = await self._list(PODS, run)
        clusters = await self._list(RAYCLUSTERS, run)
        workloads = await self._list(WORKLOADS, {"labelSelector": f"kueue.x-k8s.io/job-uid={ref.uid}"})
        jobs: list[dict[str, Any]] = []
        with suppress(NotFound):
            jobs = [await self.api.get(job_resource(ref.kind).path(self.namespace, ref.name))]
        found = [*jobs, *workloads, *clusters, *pods]
        mine = {uid(each) for each in found}
        events = [each for each in await self._list(EVENTS, {}) if each["involvedObject"].get("uid") in mine]
        now = datetime.now(UTC)
        self.recording.add(now, [*found, *events])
        gone = self._seen.job or self._seen.gone
        self._seen = Seen(
            job=jobs[0] if jobs else None,
            gone=None if jobs else gone,
            workload=newest_workload(workloads),
            clusters=tuple(clusters),
            pods=tuple(pods),
            events=tuple(events),
        )
        return status_of(ref, self._seen, now)

    async def _list(self, resource: Resource, query: dict[str, str]) -> list[dict[str, Any]]:
        found = (await self.api.list(resource.path(self.namespace), query))["items"]
        return [{**each, "kind": resource.kind} for each in found]

    def pod_of(self, replica: str) -> str:
        """Return the name of a replica's pod."""
        job = self._seen.job
        assert job is not None
        names = replica_names(self.scenario.kind, job, self._seen.pods)
        return next(str(pod["metadata"]["name"]) for pod in self._seen.pods if names.get(uid(pod)) == replica)

    async def submit(self, scenario: Scenario) -> JobRef:
        """Create the job as it is rendered, with what the fake nodes are to do."""
        identity = Identity.random()
        form = (ray if scenario.kind == "RayJob" else pytorch)(
            workers=scenario.workers, name_prefix="rec", command=scenario.command, shm_size="32Mi", **_image(scenario)
        )
        task = resolved(form, flavors=(_flavor(scenario),), priority_class=scenario.priority)
        context = RenderContext(identity=identity, user_name="ada", queued=scenario.queued)
        documents = render(task, context).documents
        job = apply_patch(dict(documents[0]), scenario.patch)
        job["metadata"]["labels"] |= scenario.labels
        for role, notes in scenario.pods.items():
            _template(job, role)["metadata"]["annotations"] |= notes
        if scenario.edit is not None:
            _edit(_template(job, scenario.edit[0])["spec"], scenario.edit[1])
        if scenario.real and scenario.kind == "RayJob":
            _template(job, "submitter")["spec"]["nodeSelector"] = {"type": "real"}
        for document in documents[1:]:
            await self.api.create(CONFIGMAPS.path(self.namespace), document)
        made = await self.api.create(job_resource(scenario.kind).path(self.namespace), job)
        return JobRef(
            backend="kubernetes",
            kind=scenario.kind,
            name=made["metadata"]["name"],
            namespace=self.namespace,
            uid=uid(made),
            task_uuid=identity.task_uuid,
        )


def _image(scenario: Scenario) -> dict[str, Any]:
    return {"image": scenario.image} if scenario.real else {}


def _flavor(scenario: Scenario) -> Flavor:
    if scenario.real:
        small = Resources.of({"cpu": scenario.cpu, "memory": scenario.memory})
        return Flavor(instance="small", resources=small, queue=OWN, node_selector={"type": "real"})
    size = Resources.of({"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": scenario.gpus})
    return Flavor(instance="gpu", resources=size, queue=OWN, accelerator="gpu", node_selector={"type": "kwok"})


def _edit(spec: dict[str, Any], changes: dict[str, Any]) -> None:
    spec.setdefault("volumes", []).extend(changes.get("volumes", []))
    spec["containers"][0].update({name: value for name, value in changes.items() if name != "volumes"})


def _template(job: dict[str, Any], role: str) -> Any:
    spec = job["spec"]
    if job["kind"] == "PyTorchJob":
        return spec["pytorchReplicaSpecs"][role.title()]["template"]
    if role == "submitter":
        return spec["submitterPodTemplate"]
    cluster = spec["rayClusterSpec"]
    return cluster["headGroupSpec"]["template"] if role == "head" else cluster["workerGroupSpecs"][0]["template"]


def _surroundings() -> list[tuple[Resource, dict[str, Any]]]:
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in _COVERED.items()]
    group = {"coveredResources": list(_COVERED), "flavors": [{"name": OWN, "resources": quotas}]}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return [
        (NAMESPACES, {"metadata": {"name": OWN}}),
        (RESOURCEFLAVORS, {"metadata": {"name": OWN}, "spec": {"nodeLabels": {"type": "kwok"}}}),
        (CLUSTERQUEUES, {"metadata": {"name": OWN}, "spec": queue}),
        (LOCALQUEUES, {"metadata": {"name": OWN, "namespace": OWN}, "spec": {"clusterQueue": OWN}}),
        (PRIORITYCLASSES, {"metadata": {"name": "state-low"}, "value": 1}),
        (PRIORITYCLASSES, {"metadata": {"name": "state-high"}, "value": 1000}),
    ]


async def _set_up(api: Api) -> None:
    for resource, body in _surroundings():
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        await api.create(resource.path(OWN), whole)


async def _tear_down(api: Api) -> None:
    for resource, body in reversed(_surroundings()):
        await api.delete(resource.path(OWN, body["metadata"]["name"]))


async def main(kubeconfig: str, names: list[str]) -> None:
    """Record the named runs, or all."""
    async with Api(
        Settings(backend="kubernetes", kubernetes={"kube_config_path": kubeconfig, "namespace": OWN})
    ) as api:
        await _set_up(api)
        try:
            for name in names or list(SCENARIOS):
                recording = await Recorder(api, SCENARIOS[name]).record()
                recording.write(name)
                print(f"{name}: {len(recording.steps)} steps")  # noqa: T201 - a script
                path = job_resource(recording.ref.kind).path(OWN, recording.ref.name)
                await api.delete(path)
                await api.delete(QUOTAS.path(OWN, OWN))
        finally:
            await _tear_down(api)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
