"""What a RayJob becomes on this machine: which Ray nodes, how large, and what is told to the user about it. Pure."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from siflow_provider.errors import Reason

if TYPE_CHECKING:
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["MAX_NODES", "SHARED_ENV", "NodePlan", "plan_nodes", "ray_unsupported", "ray_warnings"]

MAX_NODES = 8
"""Ray nodes on one machine at most. Each costs about 240 MB and 5 s beside its work (measured with Ray 2.60)."""
SHARED_ENV = "SIFLOW_SHARED_STORAGE"
"""Names the folder of the form's `shared_storage` as the job sees it."""
_MIN_STORE = 80 * 2**20
_MAX_STORE = 512 * 2**20
_STORE_SHARE = 0.3
_DASHBOARD_MODULES = ("ray", "aiohttp", "aiohttp_cors", "grpc", "opencensus", "prometheus_client")
_INSTALL = 'pip install "airflow-provider-siflow[ray]"'


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One Ray node.

    Attributes:
        replica: the replica that it is, `head-0` or `worker-N`; its name in Ray too.
        replicas: every replica whose resources it carries; more than one only where nodes were merged.
        cpus: Ray's `num_cpus`: cores, rounded up to whole ones as KubeRay does.
        gpus: numbers of the machine's GPUs that belong to it.
        memory: bytes for tasks and actors, the object store's apart.
        object_store: bytes of shared memory.
    """

    replica: str
    replicas: tuple[str, ...]
    cpus: int
    gpus: tuple[int, ...]
    memory: int
    object_store: int


def plan_nodes(document: Mapping[str, Any], gpus: Sequence[int], shared_memory: int) -> tuple[NodePlan, ...]:
    """Return the nodes of a job, the head first.

    Every replica is a node of its own up to `MAX_NODES`; a larger cluster is one node with the same resources summed.

    Args:
        document: the rendered document with `cores`, `gpus` and `memory` in each of its `replicas`.
        gpus: numbers of the machine's GPUs that the run holds, dealt out in order of the replicas.
        shared_memory: bytes that are free in /dev/shm.
    """
    free = list(gpus)
    replicas: list[NodePlan] = []
    for role in document["replicas"]:
        for index in range(role["count"]):
            own, free = free[: role["gpus"]], free[role["gpus"] :]
            name = f"{role['role']}-{index}"
            replicas.append(NodePlan(name, (name,), math.ceil(role["cores"]), tuple(own), role["memory"], 0))
    nodes = replicas if len(replicas) <= MAX_NODES else [_merge(document, replicas)]
    return tuple(_with_store(node, shared_memory // (2 * len(nodes))) for node in nodes)


def _merge(document: Mapping[str, Any], replicas: Sequence[NodePlan]) -> NodePlan:
    cores = sum(role["cores"] * role["count"] for role in document["replicas"])
    return NodePlan(
        replica=replicas[0].replica,
        replicas=tuple(part.replica for part in replicas),
        cpus=math.ceil(cores),
        gpus=tuple(number for part in replicas for number in part.gpus),
        memory=sum(part.memory for part in replicas),
        object_store=0,
    )


def _with_store(node: NodePlan, room: int) -> NodePlan:
    store = max(_MIN_STORE, min(int(node.memory * _STORE_SHARE), _MAX_STORE, room))
    return replace(node, object_store=store, memory=max(node.memory - store, _MIN_STORE))


def ray_unsupported(task: ResolvedTask) -> list[Reason]:
    """Return what keeps this RayJob from running here; [] for another kind."""
    if task.task.kind != "RayJob":
        return []
    reasons = []
    missing = [name for name in _DASHBOARD_MODULES if find_spec(name) is None]
    if missing:
        message = f"a RayJob needs Ray with its dashboard here ({', '.join(missing)} is missing): {_INSTALL}"
        reasons.append(Reason("kind", "RayMissing", message))
    env = task.task.ray.runtime_env or {}
    for key, programs in (("conda", ("conda",)), ("image_uri", ("podman",)), ("container", ("podman",))):
        if env.get(key) and not any(shutil.which(program) for program in programs):
            message = f"Ray needs the program {programs[0]} for `{key}`, and it is not on this machine's PATH"
            reasons.append(Reason(f"ray.runtime_env.{key}", "ProgramMissing", f"{message}; install it or use `pip`"))
    return reasons


def ray_warnings(task: ResolvedTask) -> list[str]:
    """Return what is different here from a cluster of many machines, one sentence each."""
    form = task.task
    if form.kind != "RayJob":
        return []
    warnings, workers = [], task.workers_to_start
    if 1 + workers > MAX_NODES:
        warnings.append(
            f"workers: {workers} workers and the head are one Ray node with the same resources summed on this "
            f"machine, which runs {MAX_NODES} Ray nodes at most."
        )
    if form.ray.autoscaling is not None:
        warnings.append(
            f"ray.autoscaling: no Ray cluster grows on this machine. It starts with min_workers: {workers} of the "
            f"{form.workers} workers, and keeps this size: work that needs more waits for ever. Raise min_workers to "
            "have more here; max_workers, idle_timeout and upscaling_mode do nothing."
        )
    if form.ray.shared_storage is not None:
        warnings.append(
            f"ray.shared_storage: stands at /tmp/ray where this system lets us mount, else elsewhere; ${SHARED_ENV} "
            "names the place in either case. Without a local folder in the catalog it lies in the state directory."
        )
    sizes = [flavor.resources.cpu for flavor in (task.head, task.flavors[0]) if flavor is not None]
    if any(size != math.ceil(size) for size in sizes):
        warnings.append("compute: Ray counts whole cores; a part of a core counts as one.")
    return warnings
