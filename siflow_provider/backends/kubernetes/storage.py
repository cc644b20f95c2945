"""What a replica mounts: claims by sub path, shared memory, the files of the run, and a folder of its own.

A claim that is mounted twice is one volume with two mounts; Kubernetes refuses a volume that is named twice, and some
drivers refuse one that is attached twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.names import (
    KEYS_DIR,
    RUN_DIR,
    SCRIPTS_DIR,
    SSH_KEYS,
    env_secret,
    files_config,
    job_name,
)
from siflow_provider.spec.mount_paths import RAY_FOLDER
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import Mount, ResolvedTask

__all__ = ["HOSTFILES", "Storage", "clean_up_note", "replica_storage", "session_dir"]

HOSTFILES = {"hostfile": "/root/hostfile", "hostfile.hostname": "/root/hostfile.hostname"}
"""Key of the ConfigMap -> the path that the form promises."""
_READ_AND_RUN, _OWNER_READS = 0o555, 0o400


@dataclass(slots=True)
class Storage:
    """Volumes of a pod and the mounts of its container, both in the order of the form."""

    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)

    def add(self, volume: dict[str, Any], path: str, **options: Any) -> None:
        """Mount `volume` at `path`; a volume that is there already is used again."""
        if volume not in self.volumes:
            self.volumes.append(volume)
        self.mounts.append({"name": volume["name"], "mountPath": path, **options})


def replica_storage(task: ResolvedTask, context: RenderContext, *, shm_size: str | None) -> Storage:
    """Return all that one replica mounts; `shm_size` None leaves shared memory bounded by the pod's memory alone."""
    name = job_name(task, context.identity)
    storage = Storage()
    claims = list(dict.fromkeys(mount.pvc for mount in task.mounts if mount.pvc is not None))
    for mount in task.mounts:
        if mount.pvc is not None:
            storage.add(*_claim(mount, claims.index(mount.pvc)), **_options(task, context, mount))
    limit = {} if shm_size is None else {"sizeLimit": shm_size}
    storage.add({"name": "shm", "emptyDir": {"medium": "Memory", **limit}}, "/dev/shm")
    storage.add({"name": "siflow-run", "emptyDir": {}}, RUN_DIR)
    in_ray = isinstance(task.task, RayJob)
    files = {"name": "siflow", "configMap": {"name": files_config(name), "defaultMode": _READ_AND_RUN}}
    if in_ray or task.task.ssh:
        storage.add(files, SCRIPTS_DIR, readOnly=True)
    if task.task.ssh:
        items = [{"key": key, "path": file} for key, file in SSH_KEYS.items()]
        secret = {"secretName": env_secret(name), "items": items, "defaultMode": _OWNER_READS}
        storage.add({"name": "siflow-ssh", "secret": secret}, KEYS_DIR, readOnly=True)
        if not in_ray:
            for key, path in HOSTFILES.items():
                storage.add(files, path, subPath=key, readOnly=True)
    return storage


def session_dir(task: ResolvedTask) -> str | None:
    """Return where Ray's session must lie when a claim covers `/tmp/ray`: its sockets can't be shared; else None."""
    covered = any(mount.mount_path in (RAY_FOLDER, "/tmp") for mount in task.mounts)
    return f"{RUN_DIR}/ray" if covered else None


def clean_up_note(task: ResolvedTask, context: RenderContext) -> str | None:
    """Return what is to be removed from shared storage after the end, as JSON; None when nothing is."""
    shared = task.task.ray.shared_storage if isinstance(task.task, RayJob) else None
    if shared is None or not shared.clean_up:
        return None
    mount = next(mount for mount in task.mounts if mount.source == "shared_storage")
    return json.dumps({"claim": mount.pvc, "path": _sub_path(task, context, mount)}, ensure_ascii=False)


def _claim(mount: Mount, index: int) -> tuple[dict[str, Any], str]:
    volume = {"name": f"claim-{index}", "persistentVolumeClaim": {"claimName": mount.pvc}}
    return volume, mount.mount_path


def _options(task: ResolvedTask, context: RenderContext, mount: Mount) -> dict[str, Any]:
    options: dict[str, Any] = {}
    sub_path = _sub_path(task, context, mount)
    if sub_path:
        options["subPath"] = sub_path
    if mount.read_only:
        options["readOnly"] = mount.read_only
    return options


def _sub_path(task: ResolvedTask, context: RenderContext, mount: Mount) -> str:
    """Return the path in the claim; shared storage gets one of the run's own, the same for every attempt."""
    if mount.source != "shared_storage":
        return mount.sub_path
    run = job_name(task, context.identity.for_attempt(1))
    return "/".join(part for part in (mount.sub_path.rstrip("/"), "siflow-ray", run) if part)
