"""The TrainJob object (trainer.kubeflow.org/v1alpha1, Kubeflow Trainer v2.2.0) and the runtime it runs on.

A TrainJob says how many pods of which size; what a pod is, its runtime says. The runtimes of a cluster are its
administrator's: their jobs start failed pods again, and a patch of theirs has no room for half of a form. So each run
has a TrainingRuntime of its own, of the run's name, made before the job (the webhook wants it there) and then owned by
it. All ranks are one indexed Job: rank 0 is the master, and its success is the job's (`successPolicy`, where the
cluster knows it: Kubernetes 1.31 or later; before that all ranks must succeed).

What is left out on purpose: `mlPolicy.torch`, whose variables the form's own ones stand for; retries
(`backoffLimit: 0`, `restartPolicy: Never`, no `failurePolicy`).

source: trainer v2.2.0 pkg/runtime/core/trainingruntime.go, pkg/runtime/framework/plugins/{jobset,plainml};
jobset v0.11.1 pkg/webhooks/jobset_webhook.go (lengths of names)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.amounts import first_instance
from siflow_provider.backends.kubernetes.metadata import is_queued, job_metadata, object_metadata
from siflow_provider.backends.kubernetes.names import LABEL_MANAGED_BY, MANAGED_BY
from siflow_provider.backends.kubernetes.pod import UNBUFFERED, Replica, replica_pod
from siflow_provider.backends.kubernetes.scripts import render_wrapper
from siflow_provider.spec.base import is_template

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["MASTER_PORT", "MAX_WORKERS", "rank_host", "render_runtime", "render_trainjob"]

API_VERSION = "trainer.kubeflow.org/v1alpha1"
MASTER_PORT = 23456
"""The training operator's, so that a task sees the same on either."""
MAX_WORKERS = 999
"""JobSet wants `<job>-pod-0-<rank>` and a suffix of 6 in 63 characters, and a job's name has 47."""
_RANKS = "pod"
_CONTAINER = "node"
"""The name that Trainer asks for."""
_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def rank_host(name: str, rank: int) -> str:
    """Return the address of a rank, by JobSet's headless service.

    Example:
        >>> rank_host("bert-3f9c1a7", 1)
        'bert-3f9c1a7-pod-0-1.bert-3f9c1a7'
    """
    return f"{name}-{_RANKS}-0-{rank}.{name}"


def render_trainjob(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the job object, before the author's patch."""
    trainer: dict[str, Any] = {"numNodes": _machines(task)}
    size = _pod(task, context, name)["spec"]["containers"][0].get("resources")
    if size is not None:
        trainer["resourcesPerNode"] = size
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": job_metadata(task, context, name),
        "spec": {
            **({"suspend": True} if is_queued(task, context) else {}),
            "runtimeRef": {"kind": "TrainingRuntime", "name": name},
            "trainer": trainer,
        },
    }


def render_runtime(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the runtime of the job `name`: the pod of every rank, but for its size, which the job says."""
    pod = _pod(task, context, name)
    pod["spec"]["containers"][0].pop("resources", None)
    job = {
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "template": {"metadata": pod["metadata"], "spec": {"restartPolicy": "Never", **pod["spec"]}},
    }
    labels = {_ANCESTOR: "trainer", LABEL_MANAGED_BY: MANAGED_BY, **context.identity.labels()}
    ranks = {"name": _RANKS, "template": {"metadata": {"labels": labels}, "spec": job}}
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": object_metadata(task, context, name),
        "spec": {"template": {"spec": {"replicatedJobs": [ranks]}}},
    }


def _machines(task: ResolvedTask) -> int | str:
    workers = task.task.workers
    return f"1 + {workers}" if is_template(workers) else 1 + workers


def _pod(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    wrapper = render_wrapper(task, lingers=task.task.workers != 0, one_for_all=True)
    replica = Replica(
        role="replica",
        container=_CONTAINER,
        flavor=task.flavors[0],
        instance=first_instance(task.task.compute),
        units=task.task.compute.units_per_replica,
        command=("bash", "-c", wrapper, "siflow"),
        args=("bash", "-c", task.task.command),
        env=_env(task, name),
        fields={"RANK": _INDEX_FIELD, "PET_NODE_RANK": _INDEX_FIELD},
    )
    return replica_pod(task, context, replica)


def _env(task: ResolvedTask, name: str) -> dict[str, str]:
    """Return what the training operator gives to a PyTorchJob's pods."""
    address, port, machines = rank_host(name, 0), str(MASTER_PORT), str(_machines(task))
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "WORLD_SIZE": machines,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "PET_NNODES": machines,
        "PET_NPROC_PER_NODE": "auto",
        UNBUFFERED: "1",
    }
