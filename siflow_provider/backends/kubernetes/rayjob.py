"""The RayJob object (ray.io/v1, KubeRay v1.6.0).

Submission mode: **K8sJobMode**. A submitter pod follows the driver's log, so user code's output comes from a pod, is
there while the job runs and outlives the Ray cluster. HTTPMode would need no pod and no quoting, but its only log is on
the head: gone with it, and out of reach without the dashboard. SidecarMode loses the log with the head pod and starts
the driver before the workers are ready. What K8sJobMode costs is paid here:

- it pastes the entrypoint into a shell line, so the entrypoint is `bash FILE`, without a character that a shell reads;
- it quotes the runtime environment by half, so `$` and backticks in it come from variables of the submitter;
- the submitter needs room of its own: one core, small, no GPU, and it does not follow the rule that narrows the nodes,
  since whole-node replicas may leave no core free there.

`backoffLimit` is 0 for the job and for the submitter: who resubmits is decided above every backend, and a submitter
that started anew would print the whole log again. The price: a submitter that is evicted ends the run. When the job
has failed, the submitter prints the end of its log a second time (Ray 2.60 `cli.py`); it exits with 0 all the same.

source: KubeRay v1.6.0 ray-operator/controllers/ray/common/job.go, pod.go; apis/ray/v1/rayjob_types.go
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.amounts import first_instance, whole
from siflow_provider.backends.kubernetes.literal import DOLLAR_ENV, TICK_ENV, submitter_literal
from siflow_provider.backends.kubernetes.metadata import is_queued, job_metadata, pod_metadata
from siflow_provider.backends.kubernetes.names import RUN_DIR, SCRIPTS_DIR
from siflow_provider.backends.kubernetes.pod import Replica, node_affinity, replica_pod, shared_pod_fields
from siflow_provider.backends.kubernetes.storage import replica_storage, session_dir
from siflow_provider.spec.base import is_template
from siflow_provider.spec.mount_paths import RAY_FOLDER

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.ray import RaySection
    from siflow_provider.spec.resolve import ResolvedTask
    from siflow_provider.spec.task import RayJob

__all__ = ["WORKER_GROUP", "render_rayjob"]

WORKER_GROUP = "workers"
"""Kueue keeps `head` and `submitter` for itself."""
_SUBMITTER_SIZE = {"cpu": "500m", "memory": "512Mi"}
_SESSION_ENV = "RAY_TMPDIR"


def render_rayjob(task: ResolvedTask, form: RayJob, context: RenderContext, name: str) -> dict[str, Any]:
    """Return the job object, before the author's patch; `form` is the task's own, of this kind."""
    ray = form.ray
    spec: dict[str, Any] = {"suspend": True} if is_queued(task, context) else {}
    spec |= {"submissionMode": "K8sJobMode", "entrypoint": f"bash {SCRIPTS_DIR}/run.sh"}
    if ray.runtime_env:
        spec["runtimeEnvYAML"] = _runtime_env(ray.runtime_env)
    spec["shutdownAfterJobFinishes"] = True
    if ray.debug is not None:
        spec["ttlSecondsAfterFinished"] = whole(ray.debug.keep_seconds)
    spec |= {
        "backoffLimit": 0,
        "submitterConfig": {"backoffLimit": 0},
        "submitterPodTemplate": _submitter(task, context),
        "rayClusterSpec": _cluster(task, ray, context),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": job_metadata(task, context, name),
        "spec": spec,
    }


def _runtime_env(runtime_env: Any) -> str:
    """Return the runtime environment as JSON, which is YAML whose strings stay strings (`1e-4`, `yes`).

    YAML reads more characters than JSON as line breaks, so those that can't be seen are written as escapes.
    """
    if is_template(runtime_env):
        return str(runtime_env)
    text = json.dumps(runtime_env, ensure_ascii=False, indent=2)
    return submitter_literal(
        "".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text)
    )


def _submitter(task: ResolvedTask, context: RenderContext) -> dict[str, Any]:
    flavor = task.head or task.flavors[0]
    container = {
        "name": "ray-job-submitter",
        "image": task.image,
        "env": [{"name": DOLLAR_ENV, "value": "$"}, {"name": TICK_ENV, "value": "`"}],
        "resources": {"requests": dict(_SUBMITTER_SIZE), "limits": dict(_SUBMITTER_SIZE)},
    }
    spec = {"restartPolicy": "Never", **shared_pod_fields(task, flavor), "containers": [container]}
    if task.task.kubernetes.node_selector:
        spec["nodeSelector"] = dict(sorted(task.task.kubernetes.node_selector.items()))
    affinity = node_affinity(task, only=False)
    if affinity is not None:
        spec["affinity"] = affinity
    return {"metadata": pod_metadata(task, context, "submitter"), "spec": spec}


def _cluster(task: ResolvedTask, ray: RaySection, context: RenderContext) -> dict[str, Any]:
    session = session_dir(task)
    head = _like_workers(task, "head")
    if ray.head is not None:
        head = replace(head, flavor=task.head or task.flavors[0], instance=ray.head.instance, units=ray.head.units)
    start = {} if session is None else {"temp-dir": session}
    cluster: dict[str, Any] = {}
    if ray.autoscaling is not None:
        cluster |= {"enableInTreeAutoscaling": True, "autoscalerOptions": _autoscaler(task, ray, context)}
    cluster["headGroupSpec"] = {"rayStartParams": start, "template": _once(replica_pod(task, context, head))}
    workers = task.task.workers
    if ray.autoscaling is not None or is_template(workers) or workers > 0:
        cluster["workerGroupSpecs"] = [_workers(task, ray, context)]
    return cluster


def _workers(task: ResolvedTask, ray: RaySection, context: RenderContext) -> dict[str, Any]:
    workers, bounds = task.task.workers, ray.autoscaling
    return {
        "groupName": WORKER_GROUP,
        "replicas": workers,
        "minReplicas": workers if bounds is None else bounds.min_workers,
        "maxReplicas": workers if bounds is None else bounds.max_workers,
        "rayStartParams": {},
        "template": _once(replica_pod(task, context, _like_workers(task, "worker"))),
    }


def _once(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template of a pod whose containers start once; KubeRay has no other place to say so."""
    return {**template, "spec": {"restartPolicy": "Never", **template["spec"]}}


def _like_workers(task: ResolvedTask, role: str) -> Replica:
    return Replica(
        role=role,
        container=f"ray-{role}",
        flavor=task.flavors[0],
        instance=first_instance(task.task.compute),
        units=task.task.compute.units_per_replica,
        command=("bash", f"{SCRIPTS_DIR}/ssh.sh") if task.task.ssh else None,
        env={} if session_dir(task) is None else {_SESSION_ENV: RUN_DIR},
    )


def _autoscaler(task: ResolvedTask, ray: RaySection, context: RenderContext) -> dict[str, Any]:
    """Return the side container's options; when the session lies elsewhere it must see the same folders as the head."""
    bounds = ray.autoscaling
    assert bounds is not None
    options: dict[str, Any] = {
        "idleTimeoutSeconds": whole(bounds.idle_timeout),
        "upscalingMode": bounds.upscaling_mode if is_template(bounds.upscaling_mode) else bounds.upscaling_mode.title(),
    }
    if session_dir(task) is not None:
        mounts = replica_storage(task, context, shm_size=None).mounts
        options["env"] = [{"name": _SESSION_ENV, "value": RUN_DIR}]
        options["volumeMounts"] = [mount for mount in mounts if mount["mountPath"] in (RUN_DIR, RAY_FOLDER, "/tmp")]
    return options
