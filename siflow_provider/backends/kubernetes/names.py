"""The names that the rendering and whoever submits must agree on: objects, places in a pod, keys of labels.

Every name derives from the job's own (47 characters at most), so that all objects of a run are found by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.core.identity import LABEL_PREFIX, default_prefix
from siflow_provider.spec.base import is_template

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = [
    "ANNOTATION_CLEAN_UP",
    "ANNOTATION_DASHBOARDS",
    "ANNOTATION_STOPPED_AT",
    "ANNOTATION_STOPPED_BY",
    "ANNOTATION_SUBMITTED_AT",
    "ANNOTATION_TIMEZONE",
    "ANNOTATION_USER",
    "ANNOTATION_VEIL",
    "ELASTIC_JOB",
    "KEYS_DIR",
    "LABEL_GROUP",
    "LABEL_MANAGED_BY",
    "LABEL_ROLE",
    "LABEL_VISIBLE",
    "MANAGED_BY",
    "MAX_EXEC_TIME",
    "PRIORITY_CLASS",
    "QUEUE_NAME",
    "RAYJOB_FINALIZER",
    "RESULTS_FILE",
    "RUN_DIR",
    "SCRIPTS_DIR",
    "SSH_KEYS",
    "env_secret",
    "files_config",
    "job_name",
]

SCRIPTS_DIR = "/etc/siflow"
"""Where the files of the run stand; the form allows no mount below `/etc`, so nothing can hide it."""
KEYS_DIR = "/etc/siflow-ssh"
"""Where the SSH key stands; beside the scripts and not below, since nothing can be mounted inside a ConfigMap."""
SSH_KEYS = {"ssh-key": "id_ed25519", "ssh-key.pub": "id_ed25519.pub"}
"""Keys in the run's Secret, which no variable can be called like -> files below `KEYS_DIR`: OpenSSH's two halves."""
RUN_DIR = "/run/siflow"
"""A folder of the pod's own that it can write, whatever the image and its user."""
RESULTS_FILE = f"{RUN_DIR}/results.json"

LABEL_ROLE = f"{LABEL_PREFIX}role"
LABEL_VISIBLE = f"{LABEL_PREFIX}visible-in-group"
LABEL_GROUP = f"{LABEL_PREFIX}project-group"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "siflow-provider"
ANNOTATION_USER = f"{LABEL_PREFIX}user"
ANNOTATION_CLEAN_UP = f"{LABEL_PREFIX}clean-up"
"""JSON `{"claim": ..., "path": ...}`: what whoever ends the run removes from shared storage."""
ANNOTATION_STOPPED_BY = f"{LABEL_PREFIX}stopped-by"
"""Written before a job is deleted: who asked for the stop. An object that is gone without it is lost."""
ANNOTATION_STOPPED_AT = f"{LABEL_PREFIX}stopped-at"
"""When, as ISO 8601 in UTC."""
ANNOTATION_SUBMITTED_AT = f"{LABEL_PREFIX}submitted-at"
"""When, as ISO 8601 in UTC with microseconds: Kubernetes itself keeps seconds, too coarse to tell which was first."""
ANNOTATION_TIMEZONE = f"{LABEL_PREFIX}timezone"
"""The form's IANA name: in which people want to read the run's times."""
ANNOTATION_DASHBOARDS = f"{LABEL_PREFIX}dashboards"
"""JSON, link name -> template; `{name}` and `{ns}` or `{namespace}` are filled in by who shows it."""
ANNOTATION_VEIL = f"{LABEL_PREFIX}veil"
"""JSON of the `Veil` over the hidden values, for whoever shows the run's lines; absent without hidden values."""

# source: Kueue v0.17.0 pkg/controller/constants/constants.go, pkg/workloadslicing/workloadslicing.go
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"

# source: KubeRay v1.6.0 ray-operator/controllers/ray/utils/constant.go, RayJobStopJobFinalizer
RAYJOB_FINALIZER = "ray.io/rayjob-finalizer"


def job_name(task: ResolvedTask, identity: Identity) -> str:
    """Return the job's full name; a prefix that is still a template stands in it as it is."""
    prefix = task.task.name_prefix or default_prefix(identity.dag_id, identity.task_id)
    return f"{prefix}{identity.name('')}" if is_template(prefix) else identity.name(prefix)


def env_secret(name: str) -> str:
    """Return the name of the Secret that holds the hidden environment of the job `name`, and its SSH key.

    The key is made at submit and not rendered. A Secret that exists is kept, since pods may hold it already.
    """
    return f"{name}-env"


def files_config(name: str) -> str:
    """Return the name of the ConfigMap that holds the files of the job `name`, where it has any."""
    return f"{name}-files"
