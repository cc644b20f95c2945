"""The rules between fields of one form. Each skips what is a template and so not known yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import is_unknown, known_items
from siflow_provider.spec.compute import Idle, InPlaceInstance, Reserved, Undecided
from siflow_provider.spec.form_names import reserved_env
from siflow_provider.spec.mount_paths import RAY_FOLDER, hidden_by, is_inside
from siflow_provider.spec.policy import FaultTolerance
from siflow_provider.spec.quantity import parse_quantity
from siflow_provider.spec.task import CatalogImage, RayJob, Task
from siflow_provider.spec.wording import quote

__all__ = ["errors_of", "warnings_of"]

_HOME = "/root"


def errors_of(task: Task) -> Iterator[Problem]:
    """Yield what is wrong between the fields of a form whose single fields are right."""
    yield from _image(task)
    yield from _env(task)
    yield from _mount_errors(task)
    yield from _compute(task)
    yield from _alerts(task)
    if isinstance(task, RayJob):
        yield from _ray(task)


def warnings_of(task: Task) -> Iterator[Problem]:
    """Yield what is doubtful in a form."""
    yield from _mount_warnings(task)
    tolerance = task.fault_tolerance
    if isinstance(tolerance, FaultTolerance) and tolerance.retry_on is not None and tolerance.max_retries == 0:
        yield Problem("fault_tolerance.retry_on", "has no effect while max_retries is 0")
    if not is_unknown(task.env):
        for name, better in (("TZ", "the field `timezone`"), ("PYTHONUNBUFFERED", "nothing: it is always 1")):
            if name in task.env:
                yield Problem(f"env.{name}", f"a backend may set {name} itself; use {better}")
    shm, compute = task.shm_size, task.compute
    if shm is not None and not is_unknown(shm) and not is_unknown(compute):
        yield from _shm(shm, compute)


def _image(task: Task) -> Iterator[Problem]:
    image = task.image
    if isinstance(image, CatalogImage) and (image.preset is None) == (image.custom is None):
        said = "both" if image.preset is not None else "neither"
        yield Problem("image", f"has {said} of `preset` and `custom`; write exactly one of them")


def _env(task: Task) -> Iterator[Problem]:
    if is_unknown(task.env):
        return
    for name in task.env:
        why = reserved_env(name, task.kind)
        if why is not None:
            yield Problem(f"env.{name}", why)


def _compute(task: Task) -> Iterator[Problem]:
    compute = task.compute
    if is_unknown(compute):
        return
    if isinstance(compute, Idle) and "priority" in task.model_fields_set and not is_unknown(task.priority):
        yield Problem("priority", f"{quote(task.priority)} is not allowed: idle compute has no priority; leave it out")
    if isinstance(compute, Reserved | Undecided):
        yield from _reserved(compute)
    if not isinstance(compute, Reserved):
        yield from _instances(compute.instances)
    nodes = compute.nodes
    if nodes is not None and not is_unknown(nodes):
        excluded = {item for _, item in known_items(nodes.exclude)}
        for index, name in known_items(nodes.only):
            if name in excluded:
                yield Problem(f"compute.nodes.only[{index}]", f"{quote(name)} is also excluded; keep it in one list")


def _reserved(compute: Reserved | Undecided) -> Iterator[Problem]:
    accepts = compute.accept_idle
    if is_unknown(accepts) or accepts:
        return
    for name in ("prefer_idle", "idle_stability"):
        value = getattr(compute, name)
        if not is_unknown(value) and value:
            yield Problem(f"compute.{name}", f"{quote(value)} needs accept_idle: true")


def _instances(instances: Any) -> Iterator[Problem]:
    if instances is None or is_unknown(instances):
        return
    if not instances:
        yield Problem("compute.instances", "must name one instance or more, best first")
    seen: list[Any] = []
    kinds: dict[str, int] = {}
    for index, instance in known_items(instances):
        if instance in seen:
            yield Problem(f"compute.instances[{index}]", f"{quote(instance)} is listed twice; keep its better place")
        seen.append(instance)
        if isinstance(instance, InPlaceInstance) and not is_unknown(instance.gpu):
            kinds.setdefault("GPU" if instance.gpu else "CPU", index)
    if len(kinds) > 1:
        index = max(kinds.values())
        yield Problem(
            f"compute.instances[{index}]", "GPU and CPU instances are mixed; all must have one kind of accelerator"
        )


def _alerts(task: Task) -> Iterator[Problem]:
    for at, alert in known_items(task.alerts):
        seen: set[str] = set()
        for index, event in known_items(alert.events):
            name = event if isinstance(event, str) else "queued_too_long"
            if name in seen:
                yield Problem(f"alerts[{at}].events[{index}]", f"{name} is listed twice")
            seen.add(name)


def _ray(task: RayJob) -> Iterator[Problem]:
    ray = task.ray
    if is_unknown(ray) or ray.autoscaling is None or is_unknown(ray.autoscaling):
        return
    least, most, workers = ray.autoscaling.min_workers, ray.autoscaling.max_workers, task.workers
    path = "ray.autoscaling"
    if not is_unknown(least) and not is_unknown(most) and least > most:
        yield Problem(f"{path}.max_workers", f"{most} is less than min_workers ({least}); at least {least}")
        return
    if is_unknown(workers):
        return
    if not is_unknown(least) and workers < least:
        yield Problem(
            "workers", f"{workers} is less than {path}.min_workers ({least}); min_workers <= workers <= max_workers"
        )
    if not is_unknown(most) and workers > most:
        yield Problem(
            "workers", f"{workers} is more than {path}.max_workers ({most}); min_workers <= workers <= max_workers"
        )


def _shm(shm: str, compute: Any) -> Iterator[Problem]:
    instances = [compute.instance] if isinstance(compute, Reserved) else getattr(compute, "instances", ())
    for _, instance in known_items(instances):
        if (
            not isinstance(instance, InPlaceInstance)
            or is_unknown(instance.memory)
            or is_unknown(compute.units_per_replica)
        ):
            continue
        if parse_quantity(shm) > parse_quantity(instance.memory) * compute.units_per_replica:
            yield Problem("shm_size", f"{shm} is more than the replica's memory; /dev/shm counts as memory")
            return


@dataclass(frozen=True, slots=True)
class _Place:
    field: str
    name: object
    path: str

    @property
    def called(self) -> str:
        return f"{self.field} ({self.name})" if isinstance(self.name, str) else self.field


def _places(task: Task) -> list[_Place]:
    out = []
    for kind in ("volumes", "datasets", "models"):
        mounts = getattr(task, kind)
        if is_unknown(mounts):
            continue
        for index, mount in enumerate(mounts):
            if not is_unknown(mount) and not is_unknown(mount.mount_path):
                out.append(_Place(f"{kind}[{index}]", mount.name, mount.mount_path))
    if isinstance(task, RayJob) and not is_unknown(task.ray):
        shared = task.ray.shared_storage
        if shared is not None and not is_unknown(shared):
            out.append(_Place("ray.shared_storage", shared.volume, RAY_FOLDER))
    return out


def _mount_errors(task: Task) -> Iterator[Problem]:
    """Yield each mount whose path is taken by an earlier one."""
    taken: dict[str, _Place] = {}
    for place in _places(task):
        first = taken.setdefault(place.path, place)
        if first is place:
            continue
        same = first.field.split("[")[0] == place.field.split("[")[0] and first.name == place.name
        what = f"{place.name!r} is mounted twice at" if same else f"{first.called} is already mounted at"
        field = first.field if place.field == "ray.shared_storage" else place.field
        what = what if field == place.field else f"{place.called} stands at"
        yield Problem(f"{field}.mount_path", f"{what} {place.path}; give each mount its own path")


def _mount_warnings(task: Task) -> Iterator[Problem]:
    """Yield each mount that hides something of the image or lies inside another mount."""
    places = _places(task)
    for place in places:
        if place.field == "ray.shared_storage":
            continue
        hidden = hidden_by(place.path)
        if hidden is not None:
            advice = "under /volume or /mnt it would hide nothing"
            yield Problem(f"{place.field}.mount_path", f"{place.path}: {hidden}; {advice}")
        if task.ssh is True and place.path == _HOME:
            yield Problem(f"{place.field}.mount_path", "ssh writes its key and hostfiles to /root, so to this mount")
    for place in places:
        for other in places:
            if place is not other and place.path != other.path and is_inside(place.path, other.path):
                message = f"{place.path} lies inside the mount of {other.called} at {other.path}"
                shared = place.field == "ray.shared_storage"
                yield Problem(place.field if shared else f"{place.field}.mount_path", message)
