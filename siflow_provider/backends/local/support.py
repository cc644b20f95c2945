"""What of a task this machine can't do, and what it does only in part.

Every field of the form is in one of three groups: honoured, told as a warning, or refused here with its reason.
"""

from __future__ import annotations

import os

from siflow_provider.backends.local.ray_plan import ray_unsupported, ray_warnings
from siflow_provider.errors import Reason
from siflow_provider.spec.compute import Reserved
from siflow_provider.spec.paths import expanded
from siflow_provider.spec.resolve import Mount, ResolvedTask

__all__ = ["unsupported_fields", "warning_lines"]

_MAX_TEXT_BYTES = 128 * 1024 - 1
"""Of one argument, and of one variable with its name. source: execve(2), MAX_ARG_STRLEN"""


def unsupported_fields(task: ResolvedTask) -> list[Reason]:
    """Return each field that can't be honoured, with the reason and what to do."""
    return [
        *_compute_reasons(task),
        *_kubernetes_reasons(task),
        *_mount_reasons(task),
        *_size_reasons(task),
        *ray_unsupported(task),
    ]


def _compute_reasons(task: ResolvedTask) -> list[Reason]:
    compute = task.task.compute
    out = []
    if compute.nodes is not None and (compute.nodes.only or compute.nodes.exclude):
        out.append(
            Reason(
                "compute.nodes",
                "OneNode",
                "there is one node, this machine; a node rule needs a cluster. Leave it out here.",
            )
        )
    if getattr(compute, "guarantee", False):
        out.append(
            Reason(
                "compute.guarantee",
                "NoGuarantee",
                "this machine's queue keeps no capacity back for anyone. Set guarantee: false here.",
            )
        )
    return out


def _kubernetes_reasons(task: ResolvedTask) -> list[Reason]:
    options = task.task.kubernetes
    words = {
        "patch": "there is no Kubernetes object to patch",
        "service_account": "there is no Kubernetes service account here",
        "image_pull_secrets": "no image is pulled here",
        "node_selector": "there is one node, this machine",
        "tolerations": "there is one node, this machine, and it has no taints",
        "annotations": "there is no Kubernetes object to annotate; `labels` are kept with the run",
    }
    return [
        Reason(f"kubernetes.{name}", "NoKubernetes", f"{why}. Leave it out for the backend `local`.")
        for name, why in words.items()
        if getattr(options, name)
    ]


def _mount_reasons(task: ResolvedTask) -> list[Reason]:
    out = []
    count: dict[str, int] = {}
    for mount in task.mounts:
        index = count.setdefault(mount.source, 0)
        count[mount.source] += 1
        path = "ray.shared_storage" if mount.source == "shared_storage" else f"{mount.source}s[{index}]"
        if mount.source != "shared_storage" and (reason := _folder_reason(mount, path)) is not None:
            out.append(reason)
    return out


def _folder_reason(mount: Mount, path: str) -> Reason | None:
    what = f"the {mount.source} {mount.name!r}"
    if mount.local is None:
        return Reason(
            path, "NoLocalFolder", f"{what} has no folder on this machine. Give it `local: FOLDER` in the catalog."
        )
    folder = expanded(mount.local)
    if (mount.source == "volume" and not mount.read_only) or folder.is_dir():
        return None
    return Reason(path, "FolderMissing", f"{what} should be in {folder}, which is not there. Make it, or mend `local`.")


def _size_reasons(task: ResolvedTask) -> list[Reason]:
    """Return what is too large for Linux to hand to a process."""
    variables = {**task.env, **{name: value.reveal() for name, value in task.hidden.items()}}
    sizes = {f"env.{name}": len(f"{name}={value}".encode()) for name, value in sorted(variables.items())}
    sizes["command"] = len(task.task.command.encode())
    out = [
        Reason(
            path,
            "TooLong",
            f"it is {size} bytes long and Linux passes at most {_MAX_TEXT_BYTES} in one "
            f"{'argument' if path == 'command' else 'variable, its name included'}. Put it into a file.",
        )
        for path, size in sizes.items()
        if size > _MAX_TEXT_BYTES
    ]
    room = os.sysconf("SC_ARG_MAX") - _MAX_TEXT_BYTES  # the rest is for what a replica gets from the machine
    if not out and (total := sum(sizes.values())) > room:
        text = f"with the command it is {total} bytes, and Linux passes about {room} to a process. Use files for some."
        out.append(Reason("env", "TooLong", text))
    return out


def warning_lines(task: ResolvedTask) -> list[str]:
    """Return what is honoured only in part, one sentence each."""
    form = task.task
    lines = [f"image: {task.image} is ignored; the command runs in this machine's own Python environment."]
    if form.region or form.cluster:
        lines.append("region, cluster: labels only on the backend `local`.")
    if form.image_pull_retries is not None:
        lines.append("image_pull_retries: not applicable; no image is pulled on the backend `local`.")
    if form.shm_size is not None:
        lines.append("shm_size: not applied; the replicas share this machine's own /dev/shm.")
    if isinstance(form.compute, Reserved) and (form.compute.accept_idle or form.compute.prefer_idle):
        lines.append("compute.accept_idle: this machine has one queue; idle capacity is no queue of its own here.")
    if form.ssh:
        lines.append("ssh: hostfiles only (SIFLOW_HOSTFILE); no SSH server is started on this machine.")
    if form.monitoring is not None and task.replicas > 1:
        lines.append(
            f"monitoring.port: all replicas share this machine's ports, so only one of them can listen on "
            f"{form.monitoring.port}."
        )
    return [*lines, *ray_warnings(task)]
