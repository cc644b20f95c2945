"""What is left to do at the end of a run: its data on shared storage, where the form says that it shall go.

Only a pod can reach a claim, so a small Job does it, after the time for which the run's Ray cluster is kept. It runs on
the run's own image, which its nodes have, and sees no more of the claim than the folder in which the runs' folders are.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists
from siflow_provider.backends.kubernetes.cluster.resources import JOBS
from siflow_provider.backends.kubernetes.life.look import get_job
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.names import ANNOTATION_CLEAN_UP, ANNOTATION_STOPPED_BY, LABEL_ROLE

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.status import JobRef

__all__ = ["cleaner", "finish"]

log = logging.getLogger(__name__)

_SHARED = "/siflow-shared"
_GRACE_SECONDS = 30
"""For pods of the cluster that still end, and may still write."""
_KEPT_SECONDS = 3600
_SIZE = {"cpu": "50m", "memory": "64Mi"}
_POD_FIELDS = ("serviceAccountName", "imagePullSecrets", "tolerations", "nodeSelector", "affinity", "securityContext")


async def finish(cluster: Cluster, ref: JobRef) -> None:
    """Have the run's data on shared storage removed, where its job says so; nothing else is left to do.

    Of a job that another process of ours stopped nothing is done: that process has all of it, and does it. Where
    somebody else deleted the job the log says which data is left, as far as it is known.

    Raises:
        BackendError: the API server refuses the Job that would do it.
    """
    if ref.kind != "RayJob":
        return
    job = await get_job(cluster, ref) or MEMORY.deleted(ref.uid)
    if job is None:
        _tell_of_data_left(ref)
        return
    body = cleaner(job)
    if body is not None:
        with suppress(AlreadyExists):
            await cluster.api.create(JOBS.path(ref.namespace), body)


def _tell_of_data_left(ref: JobRef) -> None:
    """Warn of data that nobody removes; a watch shows too little of a job to make the Job from that would do it."""
    notes = MEMORY.notes_of_gone(ref.uid)
    where = "its data is still on that volume"
    if notes is None:
        where = f"if its form has ray.shared_storage.clean_up, {where}"
    elif ANNOTATION_STOPPED_BY in notes or ANNOTATION_CLEAN_UP not in notes:
        return
    else:
        place = json.loads(notes[ANNOTATION_CLEAN_UP])
        where = f"its data is still on the claim {place['claim']!r}, in {place['path']!r}"
    log.warning("RayJob %s in namespace %s was deleted by somebody else: %s", ref.name, ref.namespace, where)


def cleaner(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the Job that removes a RayJob's data from shared storage; None when nothing is to be removed."""
    note = (job["metadata"].get("annotations") or {}).get(ANNOTATION_CLEAN_UP)
    if note is None:
        return None
    place = json.loads(note)
    path = PurePosixPath(place["path"])
    seconds = int(job["spec"].get("ttlSecondsAfterFinished") or 0) + _GRACE_SECONDS
    template = job["spec"]["submitterPodTemplate"]["spec"]
    model = template["containers"][0]
    mount = {"name": "shared", "mountPath": _SHARED, "subPath": str(path.parent)}
    container = {
        "name": "clean-up",
        "image": model["image"],
        "command": ["sh", "-c", 'sleep "$0"; rm -rf -- "$1"', str(seconds), f"{_SHARED}/{path.name}"],
        "resources": {"requests": dict(_SIZE), "limits": dict(_SIZE)},
        "volumeMounts": [mount],
        **{field: model[field] for field in ("securityContext",) if field in model},
    }
    spec = {
        "restartPolicy": "Never",
        **{field: template[field] for field in _POD_FIELDS if field in template},
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": place["claim"]}}],
    }
    labels = {LABEL_ROLE: "clean-up"}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": f"{path.name}-clean-up", "namespace": job["metadata"]["namespace"], "labels": labels},
        "spec": {
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
