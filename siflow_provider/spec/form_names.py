"""Words that have a fixed meaning: classes of failures, alert events, and environment names that are taken."""

from __future__ import annotations

__all__ = ["FAILURE_CLASSES", "RESERVED_ENV", "RESERVED_PREFIXES", "reserved_env"]

FAILURE_CLASSES = (
    "code", "out-of-memory", "image", "data-path", "quota", "preempted", "node-lost", "hang", "timeout",
    "stopped-by-user", "lost", "platform",
)  # fmt: skip
"""The classes that `retry_on` takes; a test keeps them equal to `core.status.FailureClass`."""

_BOTH = (
    "X_USER_NAME", "X_ORG_NAME", "X_TENANT_ID", "X_REGION", "X_CLUSTER", "TASK_UUID",
    "AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TASK_ID", "AIRFLOW_CTX_DAG_RUN_ID", "AIRFLOW_CTX_TRY_NUMBER",
    "SIFLOW_ATTEMPT", "SIFLOW_RESULTS", "SIFLOW_HOSTFILE",
)  # fmt: skip
_PYTORCH = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
_RAY = (
    "RAY_ADDRESS", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME",
    "RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID", "KUBERAY_GEN_RAY_START_CMD", "FQ_RAY_IP", "RAY_IP",
)  # fmt: skip

RESERVED_ENV = {"PyTorchJob": (*_BOTH, *_PYTORCH), "RayJob": (*_BOTH, *_RAY)}
"""Kind -> environment names that the platform and the job's controller set, so that a form may not.

source: training-operator v1.9.3 `envvar.go`, KubeRay v1.6.0 `pod.go`: their value beats the user's.
"""
RESERVED_PREFIXES = {
    "PyTorchJob": ("KUBERNETES_", "AIRFLOW_CTX_", "SIFLOW_", "PET_"),
    "RayJob": ("KUBERNETES_", "AIRFLOW_CTX_", "SIFLOW_"),
}
"""Kind -> beginnings of environment names that are taken."""


def reserved_env(name: str, kind: str | None = None) -> str | None:
    """Return why a form of this kind (None = of any) may not set the environment name; None when it may."""
    if name.startswith("KUBERNETES_"):
        return "names with the prefix KUBERNETES_ belong to Kubernetes; choose another name"
    kinds = [kind] if kind in RESERVED_ENV else list(RESERVED_ENV)
    for one in kinds:
        if name in RESERVED_ENV[one]:
            return f"{name} is set by the platform for every replica of a {one}; read it, and choose another name here"
        for prefix in RESERVED_PREFIXES[one]:
            if name.startswith(prefix):
                return f"names with the prefix {prefix} are set by the platform; choose another name"
    return None
