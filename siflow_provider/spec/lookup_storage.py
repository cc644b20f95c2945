"""Volumes, datasets and models: from catalog names to claims and folders."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Literal

from siflow_provider.spec.base import is_template, is_unknown, known_items
from siflow_provider.spec.kube_names import dns_name
from siflow_provider.spec.mount_paths import RAY_FOLDER
from siflow_provider.spec.resolve import Mount
from siflow_provider.spec.task import RayJob
from siflow_provider.spec.wording import listed, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.spec.catalog_model import Catalog, Narrowed, StoredData, StoredVersion, VolumeEntry
    from siflow_provider.spec.scope import Findings, Scope
    from siflow_provider.spec.task import Task

__all__ = ["mounts_of"]

CLAIM = "pvc:"
_SHARED = ("ReadWriteMany",)
_ONE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


class _Storage:
    def __init__(self, catalog: Catalog | None, scope: Scope, findings: Findings) -> None:
        self.catalog, self.scope, self.findings = catalog, scope, findings

    def volume(self, name: Any, path: str) -> VolumeEntry | StoredVersion | None:
        """Return where a volume lies."""
        from siflow_provider.spec.catalog_model import StoredVersion

        if is_unknown(name):
            return self._open(name)
        if name.startswith(CLAIM):
            return self._claim(name, path, StoredVersion)
        volumes = self.catalog.volumes if self.catalog is not None else None
        entry = self._named(name, path, volumes, "volume")
        return entry  # type: ignore[return-value] # the section decides

    def data(self, kind: str, name: Any, version: Any, path: str) -> tuple[StoredVersion | None, str | None]:
        """Return where a dataset or model lies, and its version."""
        from siflow_provider.spec.catalog_model import StoredVersion

        if is_unknown(name):
            return self._open(name), None
        if name.startswith(CLAIM):
            if version is not None:
                self.findings.wrong(f"{path}.version", f"a claim has no versions; leave it out beside {name!r}")
            return self._claim(name, path, StoredVersion), None
        section: Mapping[str, StoredData] | None = getattr(self.catalog, f"{kind}s", None)
        entry: Any = self._named(name, path, section, kind)
        if entry is None or (version is not None and is_unknown(version)):
            return (self._open(f"{name}:{version}"), None) if entry is not None else (None, None)
        return self._version(entry, kind, name, version, f"{path}.version")

    def _open(self, name: Any) -> StoredVersion | None:
        """Return a place that is named by a template, to be shown as it is; None while a form is only checked."""
        from siflow_provider.spec.catalog_model import StoredVersion

        return StoredVersion.model_construct(pvc=str(name)) if self.findings.final and is_template(name) else None

    def _claim(self, name: str, path: str, make: type[StoredVersion]) -> StoredVersion | None:
        claim = name.removeprefix(CLAIM)
        try:
            return make(pvc=dns_name(claim))
        except ValueError as error:
            self.findings.wrong(f"{path}.name" if "[" in path else path, str(error).splitlines()[0])
            return None

    def _named(self, name: str, path: str, section: Mapping[str, Narrowed] | None, kind: str) -> Narrowed | None:
        field = f"{path}.name" if "[" in path else path
        if section is None:
            advice = f"give a catalog, or write {CLAIM}NAME for a PersistentVolumeClaim"
            self.findings.wrong(field, f"{name!r} is a catalog name and there is no catalog; {advice}")
            return None
        return self.scope.find(name, section, kind, field, self.findings)

    def _version(
        self, entry: StoredData, kind: str, name: str, version: str | None, path: str
    ) -> tuple[StoredVersion | None, str | None]:
        if not entry.versions:
            if version is not None:
                self.findings.wrong(path, f"the {kind} {name!r} has no versions; leave it out")
                return None, None
            return entry, None
        chosen = version or entry.default_version or (next(iter(entry.versions)) if len(entry.versions) == 1 else None)
        if chosen is None:
            self.findings.wrong(path, f"is required: the {kind} {name!r} has the versions {listed(entry.versions)}")
            return None, None
        if chosen not in entry.versions:
            hint = suggest(chosen, entry.versions, what="versions")
            self.findings.wrong(path, f"{chosen!r} is no version of the {kind} {name!r}; {hint}")
            return None, None
        return entry.versions[chosen], chosen

    def sub_path(self, place: StoredVersion, own: Any, path: str) -> str:
        """Return the path inside the claim with the user's name filled in."""
        parts = [part for part in (place.sub_path, own) if isinstance(part, str) and part]
        joined = posixpath.join(*parts) if parts else ""
        if "{user}" not in joined:
            return joined
        user = self.scope.user
        if user is None and self.findings.final:
            self.findings.wrong(path, "its path needs the user's name; set the connection's login or the DAG's owner")
        elif user is not None and ("/" in user or "\0" in user or user in {".", ".."}):
            self.findings.wrong(path, "the user's name can't stand in a path; it holds '/' or is '.' or '..'")
        return joined.replace("{user}", user or "{user}")


def mounts_of(task: Task, catalog: Catalog | None, scope: Scope, findings: Findings) -> list[Mount]:
    """Return all mounts in the order volumes, datasets, models, shared storage; what is wrong goes to `findings`."""
    storage = _Storage(catalog, scope, findings)
    out: list[Mount] = []
    for index, volume in known_items(task.volumes):
        path = f"volumes[{index}]"
        place = storage.volume(volume.name, path)
        if place is not None:
            out.append(_mount("volume", volume, place, storage.sub_path(place, volume.sub_path, path)))
            _warn_one_node(task, place, volume, f"{path}.name", findings)
    for kind in ("dataset", "model"):
        for index, item in known_items(getattr(task, f"{kind}s")):
            path = f"{kind}s[{index}]"
            place, version = storage.data(kind, item.name, item.version, path)
            if place is not None:
                sub = storage.sub_path(place, None, path)
                out.append(_mount("dataset" if kind == "dataset" else "model", item, place, sub, version))
    out.extend(_shared(task, storage, findings))
    return out


def _mount(
    source: Literal["volume", "dataset", "model"], item: Any, place: Any, sub_path: str, version: str | None = None
) -> Mount:
    wanted = source == "dataset" or item.read_only
    return Mount(
        source=source,
        name=item.name.removeprefix(CLAIM),
        mount_path=item.mount_path,
        pvc=place.pvc,
        sub_path=sub_path,
        read_only=bool(wanted or place.read_only or place.access == "ReadOnlyMany"),
        local=place.local,
        version=version,
        access=place.access,
    )


def _shared(task: Task, storage: _Storage, findings: Findings) -> list[Mount]:
    if not isinstance(task, RayJob) or is_unknown(task.ray):
        return []
    shared = task.ray.shared_storage
    if shared is None or is_unknown(shared):
        return []
    field = "ray.shared_storage.volume"
    place = storage.volume(shared.volume, field)
    if place is None:
        return []
    if place.read_only or (place.access is not None and place.access not in _SHARED):
        why = f"has access {place.access}" if place.access not in _SHARED else "is read-only"
        good = [
            name for name, one in (storage.catalog.volumes if storage.catalog else {}).items() if one.access in _SHARED
        ]
        findings.wrong(
            field, f"{shared.volume!r} {why}; all pods must write to it (ReadWriteMany); such volumes: {listed(good)}"
        )
    return [
        Mount(
            source="shared_storage",
            name=shared.volume.removeprefix(CLAIM),
            mount_path=RAY_FOLDER,
            pvc=place.pvc,
            sub_path=storage.sub_path(place, None, field),
            local=place.local,
            access=place.access,
        )
    ]


def _warn_one_node(task: Task, place: StoredVersion, volume: Any, path: str, findings: Findings) -> None:
    if place.access in _ONE_NODE and not is_unknown(task.workers) and task.workers > 0:
        findings.doubtful(
            path,
            f"{volume.name!r} is {place.access}: all {1 + task.workers} replicas must come to one node to mount it",
        )
