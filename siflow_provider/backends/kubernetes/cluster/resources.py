"""The kinds of objects that the backend touches, and the paths at which an API server serves them.

source: training-operator v1.9.3, KubeRay v1.6.0, Kueue v0.17.0, Trainer v2.2.0 (their CRDs); Kubernetes v1.36 API
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.core.status import JobRef

__all__ = [
    "CLAIMS",
    "CLUSTERQUEUES",
    "COHORTS",
    "CONFIGMAPS",
    "EVENTS",
    "JOBS",
    "LOCALQUEUES",
    "NAMESPACES",
    "NODES",
    "PODMONITORS",
    "PODS",
    "PRIORITYCLASSES",
    "PYTORCHJOBS",
    "RAYCLUSTERS",
    "RAYJOBS",
    "RESOURCEFLAVORS",
    "SECRETS",
    "TRAINING_RUNTIMES",
    "TRAINJOBS",
    "WORKLOADS",
    "Resource",
    "job_resource",
    "resource_of",
]


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    Attributes:
        group: API group; "" for the core group.
        version: API version, such as `v1beta2`.
        plural: the word in the path.
        kind: the word in `kind`.
        namespaced: False for kinds that belong to the whole cluster.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The text of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def at(self, version: str) -> Resource:
        """Return the same kind in another version of its group."""
        return replace(self, version=version)

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """Return the path of one object, of a part of it (`status`, `log`), or of all of them.

        Args:
            namespace: None for a kind of the whole cluster, or for the objects of all namespaces.
            name: None for the collection.
            sub: a subresource.

        Example:
            >>> PODS.path("ml", "train-master-0", "log")
            '/api/v1/namespaces/ml/pods/train-master-0/log'
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, sub) if part is not None]
        return "/" + "/".join(quote(part, safe="") for part in parts)


PYTORCHJOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
RAYJOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAYCLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
TRAINJOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
TRAINING_RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime")

_KUEUE = "kueue.x-k8s.io"
WORKLOADS = Resource(_KUEUE, "v1beta2", "workloads", "Workload")
LOCALQUEUES = Resource(_KUEUE, "v1beta2", "localqueues", "LocalQueue")
CLUSTERQUEUES = Resource(_KUEUE, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
RESOURCEFLAVORS = Resource(_KUEUE, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
COHORTS = Resource(_KUEUE, "v1beta2", "cohorts", "Cohort", namespaced=False)
PRIORITYCLASSES = Resource(_KUEUE, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)

PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job")
PODMONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor")

_JOB_KINDS = {resource.kind: resource for resource in (PYTORCHJOBS, RAYJOBS, TRAINJOBS)}


def resource_of(ref: JobRef) -> Resource:
    """Return the resource that the job of a ref is."""
    return job_resource(ref.object_kind)


def job_resource(kind: str) -> Resource:
    """Return the resource of a kind of training job.

    Raises:
        UsageError: no such kind.

    Example:
        >>> job_resource("RayJob").plural
        'rayjobs'
    """
    if kind not in _JOB_KINDS:
        raise UsageError(f"{kind!r} is no kind of training job; known: {', '.join(_JOB_KINDS)}.")
    return _JOB_KINDS[kind]
