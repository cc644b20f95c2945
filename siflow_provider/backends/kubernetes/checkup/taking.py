"""Whether the cluster takes a job: a dry run passes every webhook on the way and leaves nothing behind.

Who may create jobs may ask this, so no right to read the webhooks' configuration is needed; and a webhook whose
service is down shows here and not in its configuration.
source: Kubernetes v1.36 API concepts, "Dry-run"; webhooks of training-operator v1.9.3, Trainer v2.2.0, KubeRay v1.6.0,
Kueue v0.17.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists, Denied, QuotaExceeded
from siflow_provider.backends.kubernetes.cluster.resources import Resource, job_resource
from siflow_provider.backends.kubernetes.life.runtime import lacks_runtime
from siflow_provider.core.checkup import Check
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["try_job"]

_NAME = "siflow-doctor"
_MEND = "a webhook that gives no answer: look after the pods of its service; a refusal: it says what this cluster wants"


def _pod(container: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "registry.example/none"}]}}


_MASTER = {"replicas": 1, "restartPolicy": "Never", "template": _pod("pytorch")}
_SPECS: dict[str, dict[str, Any]] = {
    "PyTorchJob": {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": _MASTER}},
    "TrainJob": {"suspend": True, "runtimeRef": {"kind": "TrainingRuntime", "name": _NAME}},
    "RayJob": {
        "entrypoint": "true",
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": _pod("ray-head")}},
    },
}


async def try_job(api: Api, kind: str, namespace: str) -> Check:
    """Return whether a job of this kind would be taken in a namespace."""
    name = f"webhooks: {kind} in {namespace}"
    try:
        await api.create(job_resource(kind).path(namespace), _body(job_resource(kind), namespace), dry_run=True)
    except (AlreadyExists, QuotaExceeded):
        pass  # it came past all webhooks
    except Denied as error:
        if lacks_runtime(error):  # a dry run can't make one first, and nothing but that was wrong
            return Check(name, True, "a dry run is answered")
        return Check(name, False, f"not tried: {error.message}", error.hint, needed=False)
    except BackendError as error:
        return Check(name, False, error.message, _MEND)
    return Check(name, True, "a dry run is taken")


def _body(resource: Resource, namespace: str) -> dict[str, Any]:
    metadata = {"name": _NAME, "namespace": namespace}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": _SPECS[resource.kind],
    }
