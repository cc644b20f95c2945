"""The hostfiles of a PyTorchJob or TrainJob: one host a replica, in order of rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.amounts import slots
from siflow_provider.spec.base import is_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["operator_host", "render_hostfiles"]


def operator_host(name: str, rank: int) -> str:
    """Return the address of a rank of a PyTorchJob: the operator gives each pod a Service of the pod's own name.

    source: training-operator v1.9.3 pkg/controller.v1/common/service.go
    """
    return f"{name}-worker-{rank - 1}" if rank else f"{name}-master-0"


def render_hostfiles(task: ResolvedTask, host: Callable[[int], str]) -> dict[str, str]:
    """Return `hostfile` (`host slots=N`, as MPI reads it) and `hostfile.hostname` (names alone).

    How many workers a template means can't be known: then a comment stands for them.

    Args:
        task: the task.
        host: the address of a rank.
    """
    count = slots(task.flavors[0])
    workers = task.task.workers
    if is_template(workers):
        note = f"# {workers} workers: {host(1)} and so on\n"
        return {"hostfile": f"{host(0)} slots={count}\n{note}", "hostfile.hostname": f"{host(0)}\n{note}"}
    hosts = [host(rank) for rank in range(1 + workers)]
    return {
        "hostfile": "".join(f"{host} slots={count}\n" for host in hosts),
        "hostfile.hostname": "".join(f"{host}\n" for host in hosts),
    }
