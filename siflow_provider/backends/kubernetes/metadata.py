"""Labels and annotations of the job and of every pod: whose run it is, and what the author asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.names import (
    ANNOTATION_CLEAN_UP,
    ANNOTATION_DASHBOARDS,
    ANNOTATION_TIMEZONE,
    ANNOTATION_USER,
    ELASTIC_JOB,
    LABEL_GROUP,
    LABEL_MANAGED_BY,
    LABEL_ROLE,
    LABEL_VISIBLE,
    MANAGED_BY,
    MAX_EXEC_TIME,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RAYJOB_FINALIZER,
)
from siflow_provider.backends.kubernetes.storage import clean_up_note
from siflow_provider.spec.base import is_template
from siflow_provider.spec.kube_names import is_label_value
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["is_queued", "job_metadata", "object_metadata", "pod_metadata", "run_selector"]


def is_queued(task: ResolvedTask, context: RenderContext) -> bool:
    """Say whether the job waits in a queue: the cluster has queues, and one is known for the chosen instance."""
    return context.queued and task.flavors[0].queue is not None


def job_metadata(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the job object's metadata; the queue's labels stand here and on no pod, so that it queues as one."""
    labels, annotations = _marks(task, context)
    whole: dict[str, Any] = {**_place(task, name), "labels": labels, "annotations": annotations}
    if is_queued(task, context):
        labels[QUEUE_NAME] = str(task.flavors[0].queue)
        if task.priority_class is not None:
            labels[PRIORITY_CLASS] = task.priority_class
        if context.last_net_seconds is not None:
            labels[MAX_EXEC_TIME] = str(context.last_net_seconds)
        if isinstance(task.task, RayJob) and task.task.ray.autoscaling is not None:
            annotations[ELASTIC_JOB] = "true"
            # KubeRay adds it at once, with a write that changes the spec a little, and Kueue takes what it sees before
            # and after it for two sizes of the job: two Workloads hold quota, and the job may never begin
            whole["finalizers"] = [RAYJOB_FINALIZER]
    if task.task.timezone:
        annotations[ANNOTATION_TIMEZONE] = task.task.timezone
    if task.dashboards:
        annotations[ANNOTATION_DASHBOARDS] = json.dumps(dict(sorted(task.dashboards.items())), ensure_ascii=False)
    note = clean_up_note(task, context)
    if note is not None:
        annotations[ANNOTATION_CLEAN_UP] = note
    return whole


def object_metadata(task: ResolvedTask, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the metadata of what belongs to the job: whose it is, and nothing that a controller could act upon."""
    labels = {LABEL_MANAGED_BY: MANAGED_BY, **context.identity.labels()}
    return {**_place(task, name), "labels": labels, "annotations": context.annotations()}


def pod_metadata(task: ResolvedTask, context: RenderContext, role: str) -> dict[str, Any]:
    """Return the metadata of a pod template of one role."""
    labels, annotations = _marks(task, context)
    monitoring = task.task.monitoring
    if monitoring is not None and role != "submitter":
        annotations |= {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(monitoring.port),
            "prometheus.io/path": monitoring.path,
        }
    return {"labels": {**labels, LABEL_ROLE: role}, "annotations": annotations}


def run_selector(context: RenderContext) -> dict[str, str]:
    """Return the labels that select this attempt's pods and no others."""
    return context.identity.labels()


def _place(task: ResolvedTask, name: str) -> dict[str, str]:
    """Return name and namespace; without a namespace, who submits takes the connection's."""
    return {"name": name} if task.namespace is None else {"name": name, "namespace": task.namespace}


def _marks(task: ResolvedTask, context: RenderContext) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels and annotations; a value that no label can hold becomes an annotation of the same key."""
    wanted = dict(sorted(task.labels.items()))
    wanted[LABEL_MANAGED_BY] = MANAGED_BY
    wanted[LABEL_VISIBLE] = str(task.task.visible_in_group).lower()
    if task.task.project_group is not None:
        wanted[LABEL_GROUP] = task.task.project_group
    labels = {key: value for key, value in wanted.items() if is_template(value) or is_label_value(value)}
    annotations = {key: value for key, value in wanted.items() if key not in labels}
    annotations |= dict(sorted(task.task.kubernetes.annotations.items()))
    annotations |= context.annotations()
    if context.user_name:
        annotations[ANNOTATION_USER] = context.user_name
    return {**labels, **context.identity.labels()}, annotations
