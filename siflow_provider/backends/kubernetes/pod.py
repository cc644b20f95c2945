"""One replica's pod: container, environment, resources, where it may run.

The kubelet expands `$(NAME)` and `$$` in a container's argv and environment; what is the author's is written so that
it comes out as he wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.amounts import amounts, half_memory
from siflow_provider.backends.kubernetes.literal import kubelet_literal
from siflow_provider.backends.kubernetes.metadata import pod_metadata
from siflow_provider.backends.kubernetes.names import RESULTS_FILE, env_secret, job_name
from siflow_provider.backends.kubernetes.storage import HOSTFILES, replica_storage
from siflow_provider.core.environment import task_env
from siflow_provider.core.results import RESULTS_ENV
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.compute import Instance
    from siflow_provider.spec.resolve import Flavor, ResolvedTask

__all__ = ["UNBUFFERED", "Replica", "node_affinity", "replica_env", "replica_pod", "shared_pod_fields"]

HOSTNAME = "kubernetes.io/hostname"
UNBUFFERED = "PYTHONUNBUFFERED"
HOSTFILE_ENV = "SIFLOW_HOSTFILE"
RAY_METRICS_PORT = 8080
"""Where Ray serves its own metrics; KubeRay calls that port `metrics`."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What tells one role's pods from another's.

    Attributes:
        role: master, worker or head.
        container: the name that the controller asks for.
        flavor: what it runs on.
        instance: the form's own word for it.
        units: units of the instance; a template where the form still holds one.
        command: argv; None leaves the start to the controller.
        args: more argv; apart from `command` so that a reader sees which part is the author's.
        env: variables of the role, stronger than the task's.
        fields: variables of the role that are a field of the pod, by its path.
    """

    role: str
    container: str
    flavor: Flavor
    instance: Instance
    units: int | str
    command: tuple[str, ...] | None
    env: Mapping[str, str]
    args: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)


def replica_pod(task: ResolvedTask, context: RenderContext, replica: Replica) -> dict[str, Any]:
    """Return the pod template of one role; when its containers start again is said where the controller reads it."""
    shm_size = task.task.shm_size or half_memory(replica.flavor.resources, replica.units)
    storage = replica_storage(task, context, shm_size=shm_size)
    size = amounts(replica.flavor.resources, replica.units, replica.instance)
    container: dict[str, Any] = {"name": replica.container, "image": task.image}
    if replica.command is not None:
        container["command"] = [kubelet_literal(word) for word in replica.command]
    if replica.args:
        container["args"] = [kubelet_literal(word) for word in replica.args]
    container["env"] = replica_env(task, context, replica.env, replica.fields)
    if size:
        container["resources"] = {"requests": size, "limits": dict(size)}
    if task.task.monitoring is not None:
        container["ports"] = [_metrics_port(task)]
    container["volumeMounts"] = storage.mounts
    spec = {**shared_pod_fields(task, replica.flavor), "containers": [container]}
    selector = {**replica.flavor.node_selector, **task.task.kubernetes.node_selector}
    if selector:
        spec["nodeSelector"] = dict(sorted(selector.items()))
    affinity = node_affinity(task, only=True)
    if affinity is not None:
        spec["affinity"] = affinity
    spec["volumes"] = storage.volumes
    return {"metadata": pod_metadata(task, context, replica.role), "spec": spec}


def shared_pod_fields(task: ResolvedTask, flavor: Flavor) -> dict[str, Any]:
    """Return what every pod of a run has, a submitter too: who it is, how it pulls, what it tolerates."""
    options = task.task.kubernetes
    fields: dict[str, Any] = {}
    if options.service_account is not None:
        fields["serviceAccountName"] = options.service_account
    if options.image_pull_secrets:
        fields["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(options.image_pull_secrets)]
    tolerations: list[dict[str, Any]] = []
    for toleration in (*flavor.tolerations, *options.tolerations):
        if dict(toleration) not in tolerations:
            tolerations.append(dict(toleration))
    if tolerations:
        fields["tolerations"] = tolerations
    return fields


def node_affinity(task: ResolvedTask, *, only: bool) -> dict[str, Any] | None:
    """Return the node rule as an affinity; `only` False leaves out the part that narrows to some nodes."""
    rule = task.task.compute.nodes
    if rule is None:
        return None
    expressions: list[dict[str, Any]] = []
    if only and rule.only:
        expressions.append({"key": HOSTNAME, "operator": "In", "values": list(dict.fromkeys(rule.only))})
    if rule.exclude:
        expressions.append({"key": HOSTNAME, "operator": "NotIn", "values": list(dict.fromkeys(rule.exclude))})
    if not expressions:
        return None
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def replica_env(
    task: ResolvedTask, context: RenderContext, own: Mapping[str, str], fields: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the environment, each name once, in order of name; hidden values are references to the Secret.

    Python's output is unbuffered everywhere: the training operator sees to that by itself and adds the name, which so
    must not stand here; KubeRay and Kubeflow Trainer do not.
    """
    plain = {**task_env(task, context), RESULTS_ENV: RESULTS_FILE, **own}
    if task.task.ssh:
        plain[HOSTFILE_ENV] = HOSTFILES["hostfile"]
    entries: dict[str, dict[str, Any]] = {name: {"value": kubelet_literal(value)} for name, value in plain.items()}
    secret = env_secret(job_name(task, context.identity))
    for name in task.hidden:
        entries[name] = {"valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}
    entries |= {name: {"valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()}
    if isinstance(task.task, RayJob):
        entries[UNBUFFERED] = {"value": "1"}
    elif UNBUFFERED not in own:
        entries.pop(UNBUFFERED, None)
    return [{"name": name, **entries[name]} for name in sorted(entries)]


def metrics_port_name(task: ResolvedTask) -> str:
    """Return the container port's name; Ray's own metrics port must keep the name that KubeRay looks for."""
    monitoring = task.task.monitoring
    rays_own = isinstance(task.task, RayJob) and monitoring is not None and monitoring.port == RAY_METRICS_PORT
    return "metrics" if rays_own else "siflow-metrics"


def _metrics_port(task: ResolvedTask) -> dict[str, Any]:
    assert task.task.monitoring is not None
    return {"name": metrics_port_name(task), "containerPort": task.task.monitoring.port, "protocol": "TCP"}
