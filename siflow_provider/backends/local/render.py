"""The one document that says what will be started. Pure: the same task and context give the same bytes."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.environment import task_env
from siflow_provider.core.identity import default_prefix
from siflow_provider.core.protocol import Manifest, RenderContext
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Mount, ResolvedTask
from siflow_provider.spec.task import RayJob

__all__ = ["render_manifest", "roles_of"]


def render_manifest(task: ResolvedTask, context: RenderContext) -> Manifest:
    """Return what would be started; the name's prefix is the form's, else made from the ids."""
    form, identity = task.task, context.identity
    name = identity.name(form.name_prefix or default_prefix(identity.dag_id, identity.task_id))
    roles = roles_of(task)
    document: dict[str, Any] = {
        "backend": "local",
        "kind": form.kind,
        "name": name,
        "labels": {**form.labels, **identity.labels()},
        "annotations": context.annotations(),
        "region": form.region,
        "cluster": form.cluster,
        "project_group": form.project_group,
        "visible_in_group": form.visible_in_group,
        "user": context.user_name,
        "command": form.command,
        "env": dict(sorted(task_env(task, context).items())),
        "hidden_env": sorted(task.hidden),
        "priority": form.priority,
        "replicas": roles,
        "need": Resources.total(Resources.of(role["resources"]) * role["count"] for role in roles).rendered(),
        "mounts": [_mount(mount) for mount in task.mounts],
        "ssh": form.ssh,
        "monitoring": form.monitoring.model_dump(mode="json") if form.monitoring else None,
    }
    if isinstance(form, RayJob):
        document["ray"] = form.ray.model_dump(mode="json")
    return Manifest(task=task, context=context, name=name, documents=(document,), hidden=dict(task.hidden))


def roles_of(task: ResolvedTask) -> list[dict[str, Any]]:
    """Return each role with its number of replicas and their size: no cluster grows here, so it stays as it starts."""
    flavor = task.flavors[0]
    lead = task.head or flavor
    roles: list[dict[str, Any]] = [
        {
            "role": "head" if task.task.kind == "RayJob" else "master",
            "count": 1,
            "instance": lead.instance,
            "resources": lead.resources.rendered(),
        }
    ]
    if workers := task.workers_to_start:
        roles.append(
            {
                "role": "worker",
                "count": workers,
                "instance": flavor.instance,
                "resources": flavor.resources.rendered(),
            }
        )
    return roles


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "source": mount.source,
        "name": mount.name,
        "version": mount.version,
        "mount_path": mount.mount_path,
        "local": mount.local,
        "sub_path": mount.sub_path,
        "read_only": mount.read_only,
    }
