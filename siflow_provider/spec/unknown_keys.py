"""Keys that do not exist where they stand, but mean something elsewhere: say where."""

from __future__ import annotations

from pydantic import BaseModel

from siflow_provider.spec.compute import COMPUTE_TYPES, Idle, OnDemand, Reserved, Spot

__all__ = ["explain"]

_TYPES: dict[str, type[BaseModel]] = {"reserved": Reserved, "on_demand": OnDemand, "spot": Spot, "idle": Idle}
_RENAMED = {
    "resources": "compute",
    "replicas": "workers (replicas = 1 + workers)",
    "name": "name_prefix",
    "envs": "env",
    "environment": "env",
    "entrypoint": "command",
    "script": "command",
    "queue": "compute (the catalog's queues decide)",
    "pool": "compute.pool",
    "instance": "compute.instance or compute.instances",
    "instances": "compute.instances",
    "retries": "fault_tolerance.max_retries",
    "max_retries": "fault_tolerance.max_retries",
    "hang_timeout": "fault_tolerance.hang_timeout",
    "namespace": "project_group (its namespace stands in the catalog)",
    "service_account": "kubernetes.service_account",
    "node_selector": "kubernetes.node_selector",
    "tolerations": "kubernetes.tolerations",
    "annotations": "kubernetes.annotations",
    "image_pull_secrets": "kubernetes.image_pull_secrets",
    "nodes": "compute.nodes",
    "fallback_after": "compute.fallback_after",
}
_RAY = ("head", "runtime_env", "shared_storage", "debug", "autoscaling")


def explain(key: str, path: tuple[str | int, ...], loc: tuple[str | int, ...], model: type[BaseModel]) -> str | None:
    """Return what to say about an unknown key; None when nothing but the nearest name can be said.

    Args:
        key: the unknown key.
        path: where it stands, without pydantic's own steps.
        loc: the same with them; they tell compute's type.
        model: the task's model.
    """
    if not path:
        return _at_top(key, model)
    if path == ("compute",):
        return _in_compute(key, str(loc[-1]).lstrip("\0"))
    if path[0] == "datasets" and key == "read_only":
        return "datasets are always read-only; leave the key out"
    return None


def _at_top(key: str, model: type[BaseModel]) -> str | None:
    if key == "ray" and "ray" not in model.model_fields:
        return f"is a field of RayJob only; this is a {model.__name__}"
    if key in _RAY:
        if "ray" in model.model_fields:
            return f"unknown key; did you mean 'ray.{key}'?"
        return f"unknown key; ray.{key} is a field of RayJob only, and this is a {model.__name__}"
    if key in _RENAMED and "command" in model.model_fields:
        return f"unknown key; did you mean {_RENAMED[key]}?"
    return None


def _in_compute(key: str, kind: str) -> str | None:
    owners = [name for name in COMPUTE_TYPES if key in _TYPES[name].model_fields]
    if not owners or kind not in COMPUTE_TYPES:
        return None
    if key == "instances" and kind == "reserved":
        return "is a field of on_demand, spot and idle; reserved has one `instance`"
    if key == "instance":
        return f"is a field of reserved; {kind} has a list, `instances`"
    if key == "guarantee" and kind == "idle":
        return "idle capacity can't be guaranteed; guarantee is a field of on_demand and spot"
    return f"is a field of {', '.join(owners)}; this is {kind}"
