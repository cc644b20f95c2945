"""The PyTorchJob object (kubeflow.org/v1, training-operator v1.9.3).

A replica's argv is `bash -c WRAPPER siflow bash -c COMMAND`: `args` are what the form promises, `command` starts them.

What is left out on purpose: `nprocPerNode`, so that `WORLD_SIZE` counts machines and torchrun may use every GPU; a
`Worker` key without workers, which the operator's webhook refuses; `activeDeadlineSeconds`, for which the operator sets
no timer; `backoffLimit`: with 0 the operator deletes all pods at the first failure, whatever `cleanPodPolicy` says, and
with them every exit code and log, while `restartPolicy: Never` alone fails the job as soon. `cleanPodPolicy: Running`
ends leftover workers of a finished job and keeps finished pods and their logs, until `ttlSecondsAfterFinished`.

source: training-operator v1.9.3 pkg/webhooks/pytorch/pytorchjob_webhook.go, pkg/controller.v1/pytorch/envvar.go,
pkg/controller.v1/common/job.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.amounts import first_instance
from siflow_provider.backends.kubernetes.metadata import is_queued, job_metadata
from siflow_provider.backends.kubernetes.pod import Replica, replica_pod
from siflow_provider.backends.kubernetes.scripts import render_wrapper
from siflow_provider.spec.base import is_template

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["render_pytorchjob"]


def render_pytorchjob(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the job object, before the author's patch."""
    policy: dict[str, Any] = {"cleanPodPolicy": "Running"}
    if is_queued(task, context):
        policy = {"suspend": True, **policy}
    if task.ttl_seconds_after_finished is not None:
        policy["ttlSecondsAfterFinished"] = int(task.ttl_seconds_after_finished)
    replicas: dict[str, Any] = {"Master": _replicas(task, context, "master", 1)}
    workers = task.task.workers
    if is_template(workers) or workers > 0:
        replicas["Worker"] = _replicas(task, context, "worker", workers)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": job_metadata(task, context, name),
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": replicas},
    }


def _replicas(task: ResolvedTask, context: RenderContext, role: str, count: int) -> dict[str, Any]:
    replica = Replica(
        role=role,
        container="pytorch",
        flavor=task.flavors[0],
        instance=first_instance(task.task.compute),
        units=task.task.compute.units_per_replica,
        command=("bash", "-c", render_wrapper(task, lingers=role == "master" and task.task.workers != 0), "siflow"),
        args=("bash", "-c", task.task.command),
        env={},
    )
    # in the template too, it would be overwritten with a warning event for each job
    return {"replicas": count, "restartPolicy": "Never", "template": replica_pod(task, context, replica)}
