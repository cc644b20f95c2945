"""Tasks for fake nodes, and a backend in the test's own namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import Manifest, RenderContext
from siflow_provider.core.status import JobRef, Kind
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.control_plane.admin import Admin, Object
from tests.control_plane.queues import GPU

VERSIONS = {"PyTorchJob": "kubeflow.org/v1", "RayJob": "ray.io/v1"}
_IN_FORM = {"cpu": "1", "memory": "1Gi"}


def opened(kubeconfig: Path, namespace: str, **settings: Any) -> KubernetesBackend:
    """Return a backend on that namespace, not yet opened."""
    options = {"kube_config_path": str(kubeconfig), "namespace": namespace}
    return KubernetesBackend(Settings(backend="kubernetes", kubernetes=options, **settings))


def task(
    queue: str | None, *, kind: Kind = "PyTorchJob", gpus: int = 1, mounts: tuple[Mount, ...] = (), **form: Any
) -> ResolvedTask:
    """Return a task whose replicas ask for GPUs; without a queue its pods go to the fake nodes by themselves."""
    form_of = RayJob if kind == "RayJob" else PyTorchJob
    annotations = form.pop("fake", {})
    raw = {
        "image": "any:1",
        "command": "true",
        "workers": 0,
        "compute": {"type": "on_demand", "instances": [_IN_FORM]},
        "kubernetes": {"annotations": {f"fakepod.test/{key}": value for key, value in annotations.items()}},
        **form,
    }
    flavor = Flavor(
        instance="in-place", resources=Resources.of({GPU: str(gpus)}), queue=queue, node_selector={"type": "kwok"}
    )
    return ResolvedTask(
        task=form_of.model_validate(raw),
        image="any:1",
        env={},
        hidden={"TOKEN": Hidden("canary-of-the-test")},
        flavors=(flavor,),
        mounts=mounts,
    )


def manifest(backend: KubernetesBackend, what: ResolvedTask, identity: Identity | None = None) -> Manifest:
    """Return what will be submitted, of a run that nobody else has where no identity is given."""
    return backend.render(what, RenderContext(identity=identity or Identity.random(), user_name="mia"))


def path(admin: Admin, ref: JobRef, kind: str = "", suffix: str = "") -> str:
    """Return the path of the run's job, or of what belongs to it."""
    version = VERSIONS.get(kind or ref.kind, "v1")
    return admin.path(kind or ref.kind, ref.name + suffix, ref.namespace, version)


def owners(found: Object | None) -> list[str]:
    """Return the uids of an object's owners."""
    assert found is not None
    return [owner["uid"] for owner in found["metadata"].get("ownerReferences", [])]
