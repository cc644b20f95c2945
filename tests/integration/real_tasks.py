"""Tasks for the real node, from the form on, and a backend that runs them in the test's own namespace.

Nothing asks for CPU but Ray's small helpers, so that many pods are on the node at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.load import load
from siflow_provider.spec.resolve import Defaults, ResolvedTask, resolve

CATALOG: dict[str, Any] = {
    "instances": {
        "tiny": {"accelerator": "cpu", "resources": {"memory": "128Mi"}},
        "ray": {"accelerator": "cpu", "resources": {"memory": "1Gi"}},
    }
}
ON = {"node_selector": {"type": "real"}}
_SIZES = {"PyTorchJob": ("base:test", "tiny"), "RayJob": ("ray:test", "ray")}


def opened(kubeconfig: Path, namespace: str, **settings: Any) -> KubernetesBackend:
    """Return a backend on that namespace, not yet opened."""
    options = {"kube_config_path": str(kubeconfig), "namespace": namespace}
    return KubernetesBackend(Settings(backend="kubernetes", kubernetes=options, **settings))


def real_task(command: str, *, queue: str | None = None, kind: str = "PyTorchJob", **form: Any) -> ResolvedTask:
    """Return a task for the real node; without a queue its pods start by themselves."""
    image, instance = _SIZES[kind]
    compute = {"type": "on_demand", "instances": [instance]}
    raw = {"kind": kind, "image": image, "command": command, "workers": 0, "compute": compute, "kubernetes": ON, **form}
    catalog = load_catalog(CATALOG)
    return resolve(load(raw, catalog=catalog), catalog, Defaults(default_queue=queue))
