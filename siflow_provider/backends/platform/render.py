"""The create body of a task. Pure: the same task, context and settings give the same bytes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.fields import used
from siflow_provider.backends.platform.mark import MARK_ENV, mark_of
from siflow_provider.backends.platform.overrides import ALWAYS, filled
from siflow_provider.core.environment import task_env
from siflow_provider.core.merge_patch import apply_patch
from siflow_provider.core.protocol import Manifest, RenderContext
from siflow_provider.core.results import RESULTS_ENV
from siflow_provider.core.shell import REPORT, SUPERVISE
from siflow_provider.spec.compute import Idle
from siflow_provider.spec.hidden import MASK
from siflow_provider.spec.task import CatalogImage, RayJob

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import Mount, ResolvedTask

__all__ = ["render_command", "render_manifest"]

_PLATFORM_ENV = frozenset({"X_USER_NAME", "X_ORG_NAME", "X_TENANT_ID", "X_REGION", "X_CLUSTER", "TASK_UUID"})
"""What the platform injects by itself."""

_HEAD = f"""\
# Runs the task's command, keeps its exit code, then prints what it wrote to ${RESULTS_ENV}.
export {RESULTS_ENV}="$(mktemp -d)/results"
"""


def render_manifest(task: ResolvedTask, context: RenderContext, settings: Settings) -> Manifest:
    """Return what would be sent; hidden values apart."""
    mark = mark_of(task, context)
    body = {
        "namePrefix": mark.name,
        "type": "pytorchjob",
        **_image(task),
        "cmd": render_command(task.task.command),
        "workers": task.task.workers,
        **_compute(task),
        **_storage(task),
        "taskEnv": _env(task, context, mark.text()),
        **_options(task),
    }
    for field, value in used(task):
        if field.path in settings.body_overrides:
            body = apply_patch(body, filled(settings.body_overrides[field.path], value))
    body = apply_patch(body, settings.body_overrides.get(ALWAYS, {}))
    return Manifest(task=task, context=context, name=mark.name, documents=(body,), hidden=dict(task.hidden))


def render_command(command: str) -> str:
    """Return the script that the platform gives to `bash -c`: the author's command is one argument of another bash."""
    run = f'\nsupervise bash -c {shlex.quote(command)}\ncode=$?\nreport\nexit "$code"\n'
    return f"{_HEAD}{REPORT}{SUPERVISE}{run}"


def _image(task: ResolvedTask) -> dict[str, Any]:
    """Return the image in the three parts that the platform wants, also for one that is none of its own."""
    form = task.task.image
    if isinstance(form, CatalogImage):
        kind = "preset" if form.preset is not None else "custom"
        name, version = form.preset or form.custom, form.version
    else:
        kind = "custom"
        path, _, digest = task.image.partition("@")
        last, _, tag = path.rpartition("/")[2].partition(":")
        name, version = last, tag or digest
    return {"image": name, "imageVersion": version or "latest", "imageUrl": task.image, "imageType": kind}


def _compute(task: ResolvedTask) -> dict[str, Any]:
    flavor, compute = task.flavors[0], task.task.compute
    out: dict[str, Any] = {
        "resourcePool": flavor.resource_pool,
        # the first one alone: which instance a task moves to, and when, is decided in one place for all backends
        "instances": [{"name": flavor.instance, "countPerPod": compute.units_per_replica}],
    }
    if not isinstance(compute, Idle):
        out["priority"] = task.task.priority
    guarantee = getattr(compute, "guarantee", None)
    return out if guarantee is None else {**out, "guarantee": guarantee}


def _storage(task: ResolvedTask) -> dict[str, Any]:
    return {
        "volumes": [
            {"volumeName": mount.name, "mountDir": mount.mount_path}
            for mount in task.mounts
            if mount.source == "volume"
        ],
        "datasets": [_data(mount) for mount in task.mounts if mount.source == "dataset"],
        "models": [_data(mount) for mount in task.mounts if mount.source == "model"],
    }


def _data(mount: Mount) -> dict[str, Any]:
    known = {"version": mount.version, "pvc": mount.pvc, "subPath": mount.sub_path or None}
    given = {key: value for key, value in known.items() if value is not None}
    return {"name": mount.name, **given, "mountPath": mount.mount_path}


def _env(task: ResolvedTask, context: RenderContext, mark: str) -> list[dict[str, Any]]:
    plain = {name: value for name, value in task_env(task, context).items() if name not in _PLATFORM_ENV}
    plain[MARK_ENV] = mark
    return [
        *({"envKey": name, "envValue": value, "hide": False} for name, value in sorted(plain.items())),
        *({"envKey": name, "envValue": MASK, "hide": True} for name in sorted(task.hidden)),
    ]


def _options(task: ResolvedTask) -> dict[str, Any]:
    form = task.task
    out: dict[str, Any] = {}
    if form.timezone:
        out["timezone"] = form.timezone
    if task.labels:
        out["labels"] = dict(task.labels)
    if isinstance(form, RayJob) and form.ray.debug is not None:
        ttl = round(form.ray.debug.keep_seconds)
        out["enhancements"] = {"debugMode": {"enabled": True, "holding": True, "ttl": ttl}}
    return out
