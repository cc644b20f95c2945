"""Small Kubernetes objects for tables: as controllers write them, with what a test is about and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from siflow_provider.core.status import JobRef, Kind

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "bert-3f9c1a7"
NAMESPACE = "team"
RUN = {"siflow-provider/run": "run-1", "siflow-provider/attempt": "1"}


def at(seconds: float) -> str:
    """Return a moment after the submission as Kubernetes writes it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(seconds: float) -> datetime:
    """Return a moment after the submission."""
    return START + timedelta(seconds=seconds)


def ref(kind: Kind = "PyTorchJob") -> JobRef:
    """Return the ref of the run that these objects are."""
    return JobRef(backend="kubernetes", kind=kind, name=NAME, namespace=NAMESPACE, uid="job-uid", task_uuid="run-1")


def condition(kind: str, status: bool = True, *, after: float = 10, reason: str = "", message: str = "") -> Any:
    """Return one condition."""
    return {
        "type": kind,
        "status": str(status),
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": at(after),
    }


def metadata(name: str, uid: str, made: float, **fields: Any) -> dict[str, Any]:
    """Return an object's metadata."""
    return {"name": name, "namespace": NAMESPACE, "uid": uid, "creationTimestamp": at(made), **fields}


def pytorchjob(
    *conditions: Any,
    workers: int = 2,
    queue: str | None = None,
    suspend: bool = False,
    gpus: int = 1,
    meta: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """Return a PyTorchJob with a master and some workers."""
    container = {"name": "pytorch", "image": "img", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}}
    replicas: dict[str, Any] = {"Master": _spec(1, container)}
    if workers:
        replicas["Worker"] = _spec(workers, container)
    state = ({"conditions": list(conditions)} if conditions else {}) | status
    return {
        "kind": "PyTorchJob",
        "metadata": _job_metadata(queue, meta),
        "spec": {"runPolicy": {"suspend": suspend}, "pytorchReplicaSpecs": replicas},
        **({"status": state} if state else {}),
    }


def _spec(count: int, container: Any) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}


def _job_metadata(queue: str | None, meta: dict[str, Any] | None) -> dict[str, Any]:
    extra = dict(meta or {})
    labels = {**RUN, **extra.pop("labels", {})}
    if queue is not None:
        labels["kueue.x-k8s.io/queue-name"] = queue
    return metadata(NAME, "job-uid", 0, labels=labels, **extra)


def rayjob(
    deployment: str = "",
    job: str = "",
    *,
    workers: int = 2,
    queue: str | None = None,
    suspend: bool = False,
    meta: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """Return a RayJob with a head and some workers, in K8sJobMode."""
    state = {"jobDeploymentStatus": deployment, "jobStatus": job, "rayClusterName": f"{NAME}-abcde", **status}
    spec = {"containers": [{"name": "ray-worker", "image": "img", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    cluster = {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray-head", "image": "img"}]}}},
        "workerGroupSpecs": [{"groupName": "workers", "replicas": workers, "template": {"spec": spec}}],
    }
    return {
        "kind": "RayJob",
        "metadata": _job_metadata(queue, meta),
        "spec": {"submissionMode": "K8sJobMode", "suspend": suspend, "rayClusterSpec": cluster},
        **({"status": {key: value for key, value in state.items() if value != ""}} if deployment or status else {}),
    }


def workload(*conditions: Any, active: bool = True, made: float = 1, **status: Any) -> dict[str, Any]:
    """Return the job's Workload."""
    return {
        "kind": "Workload",
        "metadata": metadata(f"pytorchjob-{NAME}-1a2b3", "workload-uid", made),
        "spec": {"active": active, "queueName": "gpu"},
        "status": {"conditions": list(conditions), **status},
    }


def pod(name: str, phase: str = "Running", *, made: float = 5, **fields: Any) -> dict[str, Any]:
    """Return a pod of a PyTorchJob replica, such as `worker-0`.

    Fields: `main` = state of its main container, `node`, `conditions`, `init` = init container statuses, `deletion` =
    second at which it must be gone, `reason` and `message` of the pod itself.
    """
    role, _, index = name.rpartition("-")
    labels = {**RUN, "training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": index}
    return _pod(
        name=f"{NAME}-{name}",
        uid=f"{name}-uid",
        labels=labels,
        container="pytorch",
        phase=phase,
        made=made,
        fields=fields,
    )


def ray_pod(role: str, name: str = "", phase: str = "Running", *, made: float = 5, **fields: Any) -> dict[str, Any]:
    """Return a pod of a Ray cluster, or the submitter's; `cluster` names another cluster than the first."""
    cluster = fields.pop("cluster", f"{NAME}-abcde")
    name = name or role
    if role == "submitter":
        labels = {**RUN, "batch.kubernetes.io/job-name": NAME}
        parts: Any = {"name": f"{NAME}-{name}", "labels": labels, "container": "ray-job-submitter"}
        return _pod(**parts, uid=f"{name}-uid", phase=phase, made=made, fields=fields)
    group = "headgroup" if role == "head" else "workers"
    labels = {**RUN, "ray.io/cluster": cluster, "ray.io/node-type": role, "ray.io/group": group}
    parts = {"name": f"{cluster}-{name}", "labels": labels, "container": f"ray-{role}"}
    return _pod(**parts, uid=f"{name}-uid", phase=phase, made=made, fields=fields)


def _pod(*, name: str, uid: str, labels: Any, container: str, phase: str, made: float, fields: Any) -> dict[str, Any]:
    state = fields.pop("main", {"running": {"startedAt": at(made + 1)}} if phase == "Running" else None)
    meta = metadata(name, uid, made, labels=labels)
    if (deletion := fields.pop("deletion", None)) is not None:
        meta["deletionTimestamp"] = at(deletion)
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [{"name": container, "image": "img"}]}
    if (node := fields.pop("node", "node-1")) is not None:
        spec["nodeName"] = node
    status: dict[str, Any] = {"phase": phase, "conditions": fields.pop("conditions", [])}
    if state is not None:
        status["containerStatuses"] = [{"name": container, "image": "img", "restartCount": 0, "state": state}]
    if (init := fields.pop("init", None)) is not None:
        status["initContainerStatuses"] = init
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {**status, **fields}}


def ended(code: int = 0, *, after: float = 100, reason: str = "", message: str = "") -> dict[str, Any]:
    """Return the state of a container that ended."""
    word = reason or ("Error" if code else "Completed")
    return {
        "terminated": {
            "exitCode": code, "reason": word, "message": message, "startedAt": at(6), "finishedAt": at(after)
        }
    }  # fmt: skip


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Return the state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def event(
    about: dict[str, Any], reason: str, message: str, *, after: float = 20, warning: bool = True, count: int = 1
) -> dict[str, Any]:
    """Return an event about an object."""
    return {
        "involvedObject": {"kind": about["kind"], "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": at(after),
        "lastTimestamp": at(after),
    }
