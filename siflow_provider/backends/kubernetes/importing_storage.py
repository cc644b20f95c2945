"""What a container mounts: claims become volumes of the form, memory at `/dev/shm` its `shm_size`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.importing_parts import Field, Fields, Part, as_text

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.importing_size import Size

__all__ = ["read_mounts"]

_SHM = "/dev/shm"
_WHY = {
    "emptyDir": "it is empty at the start and gone at the end, as the container's own folders are; write to those",
    "configMap": "a form mounts no ConfigMap; put its files into the image or on a volume",
    "secret": "a form mounts no Secret; hidden values of `env` carry secrets",
}
_OTHER = "a form mounts claims and nothing else: make a PersistentVolumeClaim of it"


@dataclass(slots=True)
class _Volume:
    path: str
    kind: str
    claim: str = ""
    read_only: bool = False
    size: str | None = None
    in_memory: bool = False
    used: bool = False


def read_mounts(spec: Part, container: Part, fields: Fields, size: Size) -> None:
    """Read the mounts of the main container; a volume that the form can't have is noted once, with its reason."""
    volumes = {part.text("name") or "": _volume(part) for part in spec.parts("volumes")}
    for mount in container.parts("volumeMounts"):
        name, path = mount.text("name") or "", mount.text("mountPath") or ""
        volume = volumes.get(name)
        if volume is None:
            mount.notes.say(mount.path, f"there is no volume {name!r}")
            continue
        if volume.kind == "persistentVolumeClaim":
            _claim(mount, volume, path, fields)
        elif path == _SHM and volume.in_memory:
            _shared_memory(volume, fields, size, mount)
        elif not volume.used:
            mount.notes.say(volume.path, f"(at {path}) {_WHY.get(volume.kind, _OTHER)}")
        volume.used = True
    for volume in volumes.values():
        if not volume.used:
            spec.notes.say(volume.path, "the main container does not mount it")


def _volume(part: Part) -> _Volume:
    kind = part.only_key()
    inner = part.part(kind) if kind else Part(None, part.path, part.notes)
    volume = _Volume(inner.path, kind)
    if kind == "persistentVolumeClaim":
        volume.claim = inner.text("claimName") or ""
        volume.read_only = inner.take("readOnly") is True
        inner.finish()
    elif kind == "emptyDir":
        volume.in_memory = inner.take("medium") == "Memory"
        limit = inner.take("sizeLimit")
        volume.size = None if limit is None else as_text(limit)
        if volume.in_memory:
            inner.finish()
    part.finish()
    return volume


def _claim(mount: Part, volume: _Volume, path: str, fields: Fields) -> None:
    entry = {"name": f"pvc:{volume.claim}", "mount_path": path}
    sub_path = mount.text("subPath")
    if sub_path:
        entry["sub_path"] = sub_path
    read_only = mount.take("readOnly") is True or volume.read_only
    fields[("volumes", path)] = Field({**entry, "read_only": True} if read_only else entry, mount.path)
    mount.finish()


def _shared_memory(volume: _Volume, fields: Fields, size: Size, mount: Part) -> None:
    mount.finish()
    if volume.size is None:
        mount.notes.say(volume.path, "it has no sizeLimit; the form's shm_size has one, half the memory by default")
    elif volume.size != size.half_memory:
        fields[("shm_size",)] = Field(volume.size, f"{volume.path}.sizeLimit")
