"""Resolved tasks for the tests of the rendering, made by hand, so that each test shows what it depends on."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import Manifest, RenderContext
from siflow_provider.spec.compute import OnDemand
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.ray import RaySection
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob

IDENTITY = Identity(dag_id="d", task_id="t", run_id="r")
GPU = Flavor(
    instance="gpu.8",
    resources=Resources.of({"cpu": 96, "memory": "960Gi", "nvidia.com/gpu": 8}),
    queue="od",
    node_selector={"gpu-model": "h100"},
    tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
    accelerator="gpu",
)
CPU = Flavor(instance="cpu.16", resources=Resources.of({"cpu": 16, "memory": "64Gi"}), queue="od")
COMPUTE = OnDemand(type="on_demand", instances=("gpu.8",))


def context(*, queued: bool = True, attempt: int = 1) -> RenderContext:
    return RenderContext(identity=IDENTITY.for_attempt(attempt), user_name="ada", queued=queued)


def pytorch(**fields: Any) -> PyTorchJob:
    base = {"image": "registry.example/a:1", "command": "true", "compute": COMPUTE}
    return PyTorchJob.model_construct(None, **{**base, **fields})


def ray(section: RaySection | None = None, **fields: Any) -> RayJob:
    base = {"image": "registry.example/ray:1", "command": "true", "compute": COMPUTE, "ray": section or RaySection()}
    return RayJob.model_construct(None, **{**base, **fields})


def resolved(form: PyTorchJob | RayJob, **parts: Any) -> ResolvedTask:
    base: dict[str, Any] = {
        "task": form,
        "image": form.image,
        "env": {},
        "hidden": {},
        "flavors": (GPU,),
        "labels": form.labels,
    }
    return ResolvedTask(**{**base, **parts})


def rendered(form: PyTorchJob | RayJob, *, queued: bool = True, attempt: int = 1, **parts: Any) -> Manifest:
    return render(resolved(form, **parts), context(queued=queued, attempt=attempt))


def job(manifest: Manifest) -> Any:
    return manifest.documents[0]


def document(manifest: Manifest, kind: str) -> Any:
    found = [item for item in manifest.documents if item["kind"] == kind]
    assert len(found) == 1, f"{len(found)} documents of kind {kind}"
    return found[0]


def pods(manifest: Manifest) -> dict[str, Any]:
    """Return the pod templates by role."""
    spec = job(manifest)["spec"]
    if job(manifest)["kind"] == "PyTorchJob":
        return {key.lower(): value["template"] for key, value in spec["pytorchReplicaSpecs"].items()}
    cluster = spec["rayClusterSpec"]
    found = {"head": cluster["headGroupSpec"]["template"], "submitter": spec["submitterPodTemplate"]}
    for group in cluster.get("workerGroupSpecs", []):
        found["worker"] = group["template"]
    return found


def container(manifest: Manifest, role: str) -> Any:
    return pods(manifest)[role]["spec"]["containers"][0]


def env(manifest: Manifest, role: str) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container(manifest, role)["env"]}
