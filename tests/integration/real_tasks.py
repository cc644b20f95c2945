"""Tasks for the real node, from the form on, and a backend that runs them in the test's own namespace.

Nothing asks for CPU but Ray's small helpers, so that many pods are on the node at once.
"""

from __future__ import annotations

from typing import Any

from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import Defaults, ResolvedTask, resolve

CATALOG: dict[str, Any] = {
    "instances": {
        "tiny": {"accelerator": "cpu", "resources": {"memory": "128Mi"}},
        "ray": {"accelerator": "cpu", "resources": {"memory": "1Gi"}},
    }
}
ON = {"node_selector": {"type": "real"}}
_SIZES = {"PyTorchJob": ("base:test", "tiny"), "RayJob": ("ray:test", "ray")}


def real_task(command: str, *, queue: str | None = None, kind: str = "PyTorchJob", **form: Any) -> ResolvedTask:
    """Return a task for the real node; without a queue its pods start by themselves."""
    image, instance = _SIZES[kind]
    compute = {"type": "on_demand", "instances": [instance]}
    raw = {"kind": kind, "image": image, "command": command, "workers": 0, "compute": compute, "kubernetes": ON, **form}
    catalog = load_catalog(CATALOG)
    return resolve(load(raw, catalog=catalog), catalog, Defaults(default_queue=queue))
