"""The sets of equal pods of a job, as Kueue takes them from it: what a whole task asks for.

They are read from the rendered job, the author's patch included, so that the quota is asked for what is submitted.

source: Kueue v0.17.0 pkg/controller/jobs/kubeflow/kubeflowjob/kubeflowjob_controller.go, PodSets;
pkg/controller/jobs/raycluster/common.go, BuildPodSets; pkg/controller/jobs/rayjob/rayjob_controller.go;
pkg/controller/jobs/trainjob/trainjob_controller.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.queueing.amounts import add, pod_amounts, times
from siflow_provider.backends.kubernetes.rendering import job_in, render
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.features import TrainingApi
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["PodSet", "pod_sets", "task_pod_sets", "total"]

_ORDER = ("Master", "Worker")
_ANYBODY = Identity(dag_id="dag", task_id="task", run_id="run")
"""A name and a few labels hang on whose run it is, and no amount does."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """`count` pods of one template.

    Attributes:
        name: as Kueue calls it: master, worker, head, the worker group's name, submitter.
        count: how many.
        spec: the template's pod spec.
        each: what one pod asks for.
        limits: what one pod may take at most, where it says so.
    """

    name: str
    count: int
    spec: Mapping[str, Any] = field(repr=False)
    each: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, name: str, count: int, template: Mapping[str, Any]) -> PodSet:
        """Return the set of `count` pods of a pod template."""
        spec = template.get("spec") or {}
        asked = {resource: value for resource, value in pod_amounts(spec).items() if value}
        return cls(name.lower(), count, spec, asked, pod_amounts(spec, "limits"))

    @property
    def whole(self) -> dict[str, int]:
        """What all of its pods ask for."""
        return times(self.each, self.count)


def total(sets: Sequence[PodSet]) -> dict[str, int]:
    """Return what all pods of a task ask for.

    Example:
        >>> total([PodSet("master", 1, {}, {"cpu": 500}), PodSet("worker", 3, {}, {"cpu": 1000})])
        {'cpu': 3500}
    """
    return add(*(one.whole for one in sets))


def task_pod_sets(task: ResolvedTask, training_api: TrainingApi = "PyTorchJob") -> tuple[PodSet, ...]:
    """Return the pod sets of a task on its first flavor.

    Raises:
        UnsupportedError: the task can't be rendered for Kubernetes.
    """
    documents = render(task, RenderContext(identity=_ANYBODY), training_api).documents
    return pod_sets(job_in(documents), documents[0])


def pod_sets(job: Mapping[str, Any], runtime: Mapping[str, Any] | None = None) -> tuple[PodSet, ...]:
    """Return the pod sets of a job, in Kueue's order; `runtime` is a TrainJob's."""
    if job["kind"] == "TrainJob":
        assert runtime is not None
        return (_trainer(job["spec"], runtime["spec"]),)
    found = _ray(job["spec"]) if job["kind"] == "RayJob" else _pytorch(job["spec"])
    return tuple(one for one in found if one.count > 0)


def _trainer(spec: Mapping[str, Any], runtime: Mapping[str, Any]) -> PodSet:
    trainer, ranks = spec["trainer"], runtime["template"]["spec"]["replicatedJobs"][0]
    pod = ranks["template"]["spec"]["template"]["spec"]
    sized = {**pod["containers"][0], "resources": trainer.get("resourcesPerNode") or {}}
    return PodSet.of(ranks["name"], trainer["numNodes"], {"spec": {**pod, "containers": [sized]}})


def _pytorch(spec: Mapping[str, Any]) -> Iterator[PodSet]:
    replicas = spec["pytorchReplicaSpecs"]
    for role in _ORDER:
        if role in replicas:
            yield PodSet.of(role, replicas[role].get("replicas", 1), replicas[role]["template"])


def _ray(spec: Mapping[str, Any]) -> Iterator[PodSet]:
    cluster = spec["rayClusterSpec"]
    yield PodSet.of("head", 1, cluster["headGroupSpec"]["template"])
    for group in cluster.get("workerGroupSpecs") or ():
        count = group.get("replicas", 1) * max(1, group.get("numOfHosts", 1))
        yield PodSet.of(group["groupName"], count, group["template"])
    if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode":
        yield PodSet.of("submitter", 1, spec["submitterPodTemplate"])
