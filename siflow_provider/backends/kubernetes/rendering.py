"""What would be submitted to a cluster, as a pure function of task and context; no cluster is asked.

Documents come in the order of creation: the job first, because what else belongs to the run (Secret, ConfigMap,
PodMonitor) is owned by it and goes with it, and ownership needs the job's uid. Only a TrainJob's runtime stands before
it. A queued job is created suspended, so none of its pods can look for them too early; without a queue the kubelet
waits for them.

The first of the task's flavors is the one rendered; who submits puts the chosen one there.

Fields that Kubernetes has no place for are carried by who follows the run, and nothing of them is rendered:
`queue_timeout`, `start_timeout`, `fault_tolerance`, `image_pull_retries`, `alerts`, `compute.fallback_after`. `region`
and `cluster` choose the kubeconfig context. A template is left as it is; a switch that is one is drawn as on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.hosts import operator_host, render_hostfiles
from siflow_provider.backends.kubernetes.limits import unsupported, warnings
from siflow_provider.backends.kubernetes.metadata import object_metadata, run_selector
from siflow_provider.backends.kubernetes.names import env_secret, files_config, job_name
from siflow_provider.backends.kubernetes.patch import apply_patch
from siflow_provider.backends.kubernetes.pod import metrics_port_name
from siflow_provider.backends.kubernetes.pytorchjob import render_pytorchjob
from siflow_provider.backends.kubernetes.rayjob import render_rayjob
from siflow_provider.backends.kubernetes.scripts import render_scripts
from siflow_provider.backends.kubernetes.trainjob import rank_host, render_runtime, render_trainjob
from siflow_provider.core.protocol import Manifest
from siflow_provider.errors import UnsupportedError
from siflow_provider.spec.hidden import MASK
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siflow_provider.backends.kubernetes.cluster.features import TrainingApi
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["job_in", "render", "revealed", "unsupported", "warnings"]

_JOBS = frozenset({"PyTorchJob", "RayJob", "TrainJob"})


def render(task: ResolvedTask, context: RenderContext, training_api: TrainingApi = "PyTorchJob") -> Manifest:
    """Return the objects of one run; hidden values are in `Manifest.hidden` and masked in the documents.

    Args:
        task: the task.
        context: whose run it is, and whether the cluster has queues.
        training_api: what a form of kind PyTorchJob becomes.

    Raises:
        UnsupportedError: the task has fields that `unsupported` names.
    """
    reasons = unsupported(task, training_api)
    if reasons:
        raise UnsupportedError(reasons, backend="kubernetes")
    name = job_name(task, context.identity)
    form = task.task
    trains = training_api == "TrainJob" and not isinstance(form, RayJob)
    if isinstance(form, RayJob):
        job = render_rayjob(task, form, context, name)
    else:
        job = (render_trainjob if trains else render_pytorchjob)(task, context, name)
    documents = [render_runtime(task, context, name)] if trains else []
    documents.append(apply_patch(job, form.kubernetes.patch))
    if task.hidden:
        documents.append(_env_secret(task, context, name))
    files = _files(task, partial(rank_host if trains else operator_host, name))
    if files:
        documents.append(_files_config(task, context, name, files))
    if form.monitoring is not None:
        documents.append(_pod_monitor(task, context, name))
    return Manifest(task=task, context=context, name=name, documents=tuple(documents), hidden=dict(task.hidden))


def job_in(documents: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the job among the objects of a run."""
    return next(document for document in documents if document["kind"] in _JOBS)


def revealed(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the documents with the hidden values in their Secret: for the API server, or for who asked to see them."""
    secret = env_secret(manifest.name)
    values = {name: value.reveal() for name, value in sorted(manifest.hidden.items())}
    return [
        {**document, "stringData": values}
        if document["kind"] == "Secret" and document["metadata"]["name"] == secret
        else dict(document)
        for document in manifest.documents
    ]


def _env_secret(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": object_metadata(task, context, env_secret(name)),
        "type": "Opaque",
        "stringData": dict.fromkeys(sorted(task.hidden), MASK),
    }


def _files(task: ResolvedTask, host: Callable[[int], str]) -> dict[str, str]:
    files = render_scripts(task)
    if task.task.ssh and not isinstance(task.task, RayJob):
        files |= render_hostfiles(task, host)
    return files


def _files_config(task: ResolvedTask, context: RenderContext, name: str, files: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": object_metadata(task, context, files_config(name)),
        "immutable": True,
        "data": files,
    }


def _pod_monitor(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the scrape rule; who submits leaves it out on a cluster that does not know the kind."""
    monitoring = task.task.monitoring
    assert monitoring is not None
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": object_metadata(task, context, name),
        "spec": {
            "selector": {"matchLabels": run_selector(context)},
            "podMetricsEndpoints": [{"port": metrics_port_name(task), "path": monitoring.path}],
        },
    }
