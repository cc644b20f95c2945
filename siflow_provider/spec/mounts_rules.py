"""The rules between mounts: two at one path, one inside another, and what of the image they hide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from siflow_provider.errors import Problem
from siflow_provider.spec.base import is_unknown
from siflow_provider.spec.mount_paths import hidden_by, is_inside
from siflow_provider.spec.task import RayJob, Task

__all__ = ["RAY_FOLDER", "mount_errors", "mount_warnings"]

RAY_FOLDER = "/tmp/ray"
_HOME = "/root"


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


def mount_errors(task: Task) -> Iterator[Problem]:
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


def mount_warnings(task: Task) -> Iterator[Problem]:
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
