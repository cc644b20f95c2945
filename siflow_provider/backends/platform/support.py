"""What the platform can't carry of a task, and what it carries only in part; each with its reason. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.platform.fields import used
from siflow_provider.backends.platform.mark import MARK_ENV, VEIL_ENV
from siflow_provider.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["unsupported_fields", "warning_lines"]

_MAX_COMMAND_BYTES = 96 * 1024
"""The command goes, quoted and with the script around it, into one argument of bash, which takes 128 KiB
(source: execve(2), MAX_ARG_STRLEN)."""
_KUBERNETES = ("patch", "service_account", "image_pull_secrets", "node_selector", "tolerations", "annotations")


def unsupported_fields(task: ResolvedTask, settings: Settings) -> list[Reason]:
    """Return each field that can't be honoured, with the reason and what to do."""
    return [
        *_unspelt(task, settings),
        *_place(task, settings),
        *_instance(task),
        *_storage(task),
        *_env(task),
        *_rest(task, settings),
    ]


def _unspelt(task: ResolvedTask, settings: Settings) -> Iterator[Reason]:
    for field, _ in used(task):
        if field.path not in settings.body_overrides and field.path not in task.defaulted:
            yield Reason(
                field.path,
                "UnknownSpelling",
                f"no public source tells {field.why}, and nothing is guessed. Leave it out, or let an admin who knows "
                f"the spelling give it in the connection: body_overrides[{field.path!r}].",
            )


def _place(task: ResolvedTask, settings: Settings) -> Iterator[Reason]:
    for name in ("region", "cluster"):
        wanted, there = getattr(task.task, name), getattr(settings, name)
        if wanted is not None and wanted != there and name not in task.defaulted:
            yield Reason(
                name,
                "OtherConnection",
                f"the connection speaks to the {name} {there!r} and the task wants {wanted!r}; use a connection of "
                "that one.",
            )


def _instance(task: ResolvedTask) -> Iterator[Reason]:
    flavor = task.flavors[0]
    field = "compute.instance" if task.task.compute.type == "reserved" else "compute.instances"
    if flavor.instance == "in-place":
        yield Reason(
            field, "NamedOnly", "the platform takes instances by their names; write one of the catalog's in its place."
        )
    elif flavor.resource_pool is None:
        yield Reason(
            field,
            "NoPool",
            f"the catalog's queue entry for {flavor.instance!r} has no `resource_pool`, the pool's name on the "
            "platform; add it there.",
        )


def _storage(task: ResolvedTask) -> Iterator[Reason]:
    for index, volume in enumerate(task.task.volumes):
        path = f"volumes[{index}]"
        if volume.name.startswith("pvc:"):
            yield Reason(f"{path}.name", "NamedOnly", "the platform mounts its own volumes by name, and no claims.")
        if volume.read_only:
            yield Reason(
                f"{path}.read_only",
                "PlatformDecides",
                "the platform's own permissions say who may write to a volume; a task can't. Leave it out.",
            )
    volumes = [mount for mount in task.mounts if mount.source == "volume"]
    for index, mount in enumerate(volumes):
        if mount.sub_path:
            yield Reason(
                f"volumes[{index}].sub_path",
                "WholeVolume",
                f"the platform mounts a volume as a whole, and only {mount.sub_path!r} of {mount.name!r} is wanted. "
                "Mount all of it and use that path.",
            )
    for index, model in enumerate(task.task.models):
        if not model.read_only:
            yield Reason(
                f"models[{index}].read_only",
                "PlatformDecides",
                "the platform takes no wish to write to a model; mount its volume to write there.",
            )


def _env(task: ResolvedTask) -> Iterator[Reason]:
    for name in (MARK_ENV, VEIL_ENV):
        if name in task.env or name in task.hidden:
            yield Reason(f"env.{name}", "NameTaken", "by this variable the run is found again; choose another name.")


def _rest(task: ResolvedTask, settings: Settings) -> Iterator[Reason]:
    form = task.task
    for name in _KUBERNETES:
        if getattr(form.kubernetes, name):
            yield Reason(
                f"kubernetes.{name}", "NoKubernetes", "the platform shows no Kubernetes objects: leave it out."
            )
    if form.fault_tolerance is not None and form.fault_tolerance.hang_timeout and "logs" not in settings.api_overrides:
        yield Reason(
            "fault_tolerance.hang_timeout",
            "NoLogs",
            "a hang shows by a silent log, and this connection does not know how the platform spells its log query "
            "(api_overrides.logs).",
        )
    size = len(form.command.encode())
    if size > _MAX_COMMAND_BYTES:
        yield Reason(
            "command",
            "TooLong",
            f"it is {size} bytes long and at most {_MAX_COMMAND_BYTES} fit. Put the script into a file.",
        )


def warning_lines(task: ResolvedTask, settings: Settings) -> list[str]:
    """Return what is honoured only in part, one sentence each."""
    lines = []
    if "logs" not in settings.api_overrides:
        lines.append(
            "logs: no public source tells how the platform spells its log query, so lines and results can't be read; "
            "give the spelling in the connection (api_overrides.logs), or see the platform's console."
        )
    return [*lines, *_defaults_not_carried(task, settings)]


def _defaults_not_carried(task: ResolvedTask, settings: Settings) -> Iterator[str]:
    """Yield what a catalog or connection wishes for every task: no task is refused for what it did not ask for."""
    for field, value in used(task):
        if field.path in task.defaulted and field.path not in settings.body_overrides:
            yield (
                f"{field.path}: the default {value!r} is left out: no public source tells {field.why} "
                f"(body_overrides[{field.path!r}] of the connection may)."
            )
    for name in ("region", "cluster"):
        wanted, there = getattr(task.task, name), getattr(settings, name)
        if name in task.defaulted and wanted is not None and wanted != there:
            yield (
                f"{name}: the catalog's default is {wanted!r}, and the connection speaks to the {name} {there!r}: the "
                "task goes there, by the names that the catalog has for its default."
            )
