"""What Kubernetes can't carry of a task, and what it carries only in part; each with its reason."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.names import LABEL_MANAGED_BY, RUN_DIR
from siflow_provider.backends.kubernetes.patch import protected_paths
from siflow_provider.backends.kubernetes.storage import HOSTFILES
from siflow_provider.backends.kubernetes.trainjob import MASTER_PORT, MAX_WORKERS
from siflow_provider.errors import Reason
from siflow_provider.spec.base import is_template
from siflow_provider.spec.kube_names import is_label_value
from siflow_provider.spec.quantity import format_quantity
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siflow_provider.backends.kubernetes.cluster.features import TrainingApi
    from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask

__all__ = ["unsupported", "warnings"]

MAX_COMMAND_BYTES = 128 * 1024 - 1
"""The longest single argument that Linux gives a program (source: linux/binfmts.h, MAX_ARG_STRLEN, 32 pages)."""

_TAKEN_PORTS = {
    "PyTorchJob": {MASTER_PORT: "the port where the replicas meet (MASTER_PORT)"},
    "RayJob": {6379: "Ray's own (GCS)", 8265: "Ray's dashboard", 10001: "Ray's client server"},
}
_SSH_PORT = 22
_PYTORCHJOBS_OWN = ("pytorchReplicaSpecs", "runPolicy", "elasticPolicy", "nprocPerNode")
_LEAST_RAY_CPU = Decimal("0.5")
_SOURCES = {"volume": "volumes", "dataset": "datasets", "model": "models"}


def unsupported(task: ResolvedTask, training_api: TrainingApi = "PyTorchJob") -> list[Reason]:
    """Return each field that this backend can't honour, with the reason. Pure.

    Args:
        task: the task.
        training_api: what a form of kind PyTorchJob becomes.
    """
    return [
        *_command(task),
        *_env(task),
        *_mounts(task),
        *_labels(task),
        *_places(task),
        *_port(task),
        *_runtime_env(task),
        *_autoscaling(task),
        *_patch(task),
        *(_as_trainjob(task) if training_api == "TrainJob" and task.task.kind == "PyTorchJob" else ()),
    ]


def warnings(task: ResolvedTask) -> list[str]:
    """Return what is honoured only in part, one sentence each. Pure."""
    form = task.task
    found = []
    if task.flavors[0].queue is None:
        found.append(
            "no queue is known for this task: its pods are scheduled one by one, and some may run while others wait"
        )
    if isinstance(form, RayJob):
        found += _ray_warnings(task, form)
    return found


def _ray_warnings(task: ResolvedTask, form: RayJob) -> Iterator[str]:
    ray, flavor = form.ray, task.flavors[0]
    if ray.autoscaling is not None and flavor.queue is not None:
        yield (
            "ray.autoscaling: under Kueue it needs the cluster's elastic-jobs gate (`elastic_jobs: true`), and the "
            "autoscaler's own 500m CPU and 512Mi on the head's node are not counted in the quota"
        )
    if ray.debug is not None and ray.debug.keep_seconds and flavor.queue is not None:
        yield (
            "ray.debug: while the cluster is kept it holds its nodes, but Kueue gives its quota to others at once: "
            "their pods may wait for room until it is gone"
        )
    if task.head is not None:
        yield from _small(task.head, "head")
    if task.head is None or form.workers:
        yield from _small(flavor, "worker" if task.head is not None else "node")
    if form.ssh:
        yield "ssh: the hostfiles are written on the head, with the pods that are there when the command starts"


def _small(flavor: Flavor, role: str) -> Iterator[str]:
    """Yield a warning for a size on which Ray was seen to die at its start; KubeRay makes it anew without end."""
    cpu = flavor.resources.amounts.get("cpu")
    if cpu is not None and cpu < _LEAST_RAY_CPU:
        yield (
            f"compute: {format_quantity(cpu)} CPU is little for a Ray {role}: with less than 0.5 Ray may take too long "
            "to start, end, and be started again without end; start_timeout bounds that"
        )


def _command(task: ResolvedTask) -> Iterator[Reason]:
    size = len(task.task.command.encode())
    if size > MAX_COMMAND_BYTES:
        yield Reason(
            "command",
            "CommandTooLong",
            f"it is {size} bytes long and Linux gives a program {MAX_COMMAND_BYTES} at most in one argument; "
            "put the program into the image or on a volume and start it from there",
        )


def _env(task: ResolvedTask) -> Iterator[Reason]:
    """Yield what no container could be started with; a variable is bounded as an argument is, its name included."""
    for name, value in sorted({**task.env, **{name: value.reveal() for name, value in task.hidden.items()}}.items()):
        size = len(f"{name}={value}".encode())
        if size > MAX_COMMAND_BYTES:
            yield Reason(
                f"env.{name}",
                "VariableTooLong",
                f"it is {size} bytes long with its name and Linux gives a program {MAX_COMMAND_BYTES} at most in one "
                "variable; put the content into a file on a volume",
            )


def _mounts(task: ResolvedTask) -> Iterator[Reason]:
    counts: dict[str, int] = {}
    for mount in task.mounts:
        index = counts.get(mount.source, 0)
        counts[mount.source] = index + 1
        path = f"{_SOURCES[mount.source]}[{index}]" if mount.source in _SOURCES else "ray.shared_storage"
        yield from _mount(task, mount, path)


def _mount(task: ResolvedTask, mount: Mount, path: str) -> Iterator[Reason]:
    if mount.pvc is None:
        yield Reason(path, "NoClaim", f"{mount.name!r} has no `pvc` in the catalog, so no pod can mount it")
    taken = {RUN_DIR: "where results and keys of the run stand"}
    if task.task.ssh:
        taken |= dict.fromkeys(HOSTFILES.values(), "a hostfile, since ssh is on")
    if mount.mount_path in taken:
        yield Reason(f"{path}.mount_path", "PathTaken", f"{mount.mount_path} is {taken[mount.mount_path]}")
    alone = not is_template(task.task.workers) and task.task.workers == 0
    if mount.access == "ReadWriteOncePod" and not (alone and task.task.kind == "PyTorchJob"):
        yield Reason(
            path, "OnePodOnly", f"{mount.name!r} is ReadWriteOncePod: one pod can mount it, this task has more"
        )


def _labels(task: ResolvedTask) -> Iterator[Reason]:
    for field, keys in (("labels", task.labels), ("kubernetes.annotations", task.task.kubernetes.annotations)):
        if LABEL_MANAGED_BY in keys:
            yield Reason(f"{field}.{LABEL_MANAGED_BY}", "KeyTaken", "this provider marks its objects with it")


def _places(task: ResolvedTask) -> Iterator[Reason]:
    """Yield what the API server would refuse only in the pods, where a job's owner never sees it."""
    rule, selector = task.task.compute.nodes, task.task.kubernetes.node_selector
    places = {f"kubernetes.node_selector.{key}": value for key, value in selector.items()}
    if rule is not None:
        places |= {f"compute.nodes.only[{index}]": name for index, name in enumerate(rule.only)}
        places |= {f"compute.nodes.exclude[{index}]": name for index, name in enumerate(rule.exclude)}
    for path, value in places.items():
        if not is_template(value) and not is_label_value(value):
            yield Reason(path, "NoLabelValue", f"{value[:80]!r} can be no node's label, by which pods find their nodes")


def _port(task: ResolvedTask) -> Iterator[Reason]:
    monitoring, taken = task.task.monitoring, _TAKEN_PORTS[task.task.kind]
    if task.task.ssh:
        taken = {**taken, _SSH_PORT: "the SSH server's, since ssh is on"}
    if monitoring is not None and monitoring.port in taken:
        owner = taken[monitoring.port]
        yield Reason("monitoring.port", "PortTaken", f"{monitoring.port} is {owner}; serve the metrics on another")


def _runtime_env(task: ResolvedTask) -> Iterator[Reason]:
    runtime_env = task.task.ray.runtime_env if isinstance(task.task, RayJob) else None
    for path, text in _texts(runtime_env, "ray.runtime_env"):
        odd = sorted({char for char in text if char == "\x7f" or (char > "\uffff" and not char.isprintable())})
        if odd:
            shown = ", ".join(f"U+{ord(char):04X}" for char in odd)
            yield Reason(path, "CharacterLost", f"KubeRay can't hand {shown} to Ray; leave it out")


def _autoscaling(task: ResolvedTask) -> Iterator[Reason]:
    """Yield the instances of which Ray's autoscaler can't tell how much they bring: it would end at its start.

    source: Ray 2.60 python/ray/autoscaler/_private/kuberay/autoscaling_config.py, _get_num_cpus
    """
    if not isinstance(task.task, RayJob) or task.task.ray.autoscaling is None:
        return
    for flavor in (*task.flavors, *(() if task.head is None else (task.head,))):
        known = flavor.instance != "in-place" and not is_template(flavor.instance)
        if known and "cpu" not in flavor.resources.amounts:
            why = (
                f"Ray's autoscaler must know how many CPUs a pod has, and {flavor.instance!r} has no cpu in the catalog"
            )
            yield Reason("ray.autoscaling", "NoCpu", why)


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(str(key), path)
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


def _patch(task: ResolvedTask) -> Iterator[Reason]:
    for path in protected_paths(task.task.kubernetes.patch):
        yield Reason(
            f"kubernetes.patch.{path}", "MarkOfTheRun", "the job is found again by this, so a patch can't change it"
        )


def _as_trainjob(task: ResolvedTask) -> Iterator[Reason]:
    """Yield what a PyTorchJob could carry and a TrainJob can't."""
    spec = task.task.kubernetes.patch.get("spec")
    for name in spec if isinstance(spec, dict) else ():
        path = f"kubernetes.patch.spec.{name}"
        if name in _PYTORCHJOBS_OWN:
            yield Reason(
                path,
                "NoSuchField",
                "the task becomes a TrainJob, which has no such field; its pods are patched by spec.runtimePatches",
            )
        elif name == "runtimeRef":
            yield Reason(path, "RuntimeOfTheRun", "the run's own runtime says what its pods are")
    workers = task.task.workers
    if not is_template(workers) and workers > MAX_WORKERS:
        yield Reason("workers", "TooMany", f"a TrainJob's names have room for {MAX_WORKERS}, not for {workers}")
