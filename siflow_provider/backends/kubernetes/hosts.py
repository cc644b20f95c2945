"""The hostfiles of a PyTorchJob: one host a replica, in order of rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.amounts import slots
from siflow_provider.spec.base import is_template

if TYPE_CHECKING:
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["render_hostfiles"]


def render_hostfiles(task: ResolvedTask, name: str) -> dict[str, str]:
    """Return `hostfile` (`host slots=N`, as MPI reads it) and `hostfile.hostname` (names alone).

    The operator gives each pod a Service of the pod's own name, `<job>-master-0` and `<job>-worker-<n>`
    (source: training-operator v1.9.3 pkg/controller.v1/common/service.go). How many workers a template means can't be
    known: then a comment stands for them.
    """
    count = slots(task.flavors[0])
    workers = task.task.workers
    if is_template(workers):
        note = f"# {workers} workers: {name}-worker-0 and so on\n"
        return {"hostfile": f"{name}-master-0 slots={count}\n{note}", "hostfile.hostname": f"{name}-master-0\n{note}"}
    hosts = [f"{name}-master-0", *(f"{name}-worker-{index}" for index in range(workers))]
    return {
        "hostfile": "".join(f"{host} slots={count}\n" for host in hosts),
        "hostfile.hostname": "".join(f"{host}\n" for host in hosts),
    }
