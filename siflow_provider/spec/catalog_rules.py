"""Names in a catalog that point to nothing, and entries that contradict themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from siflow_provider.errors import Problem
from siflow_provider.spec.catalog_model import Catalog, Narrowed, QueueEntry, StoredData, StoredVersion
from siflow_provider.spec.form_names import reserved_env
from siflow_provider.spec.quantity import is_accelerator
from siflow_provider.spec.wording import suggest

__all__ = ["dangling"]


def dangling(catalog: Catalog, *, unread: Iterable[str] = ()) -> Iterator[Problem]:
    """Yield every reference to a name that the catalog does not have, and every contradiction in it.

    Args:
        catalog: what could be read of it.
        unread: sections that could not, so that nothing is known about names in them.
    """
    unread = set(unread)
    yield from _clusters(catalog)
    yield from _defaults(catalog)
    for path, entry in _narrowed(catalog):
        yield from _narrowing(catalog, path, entry)
    for index, queue in enumerate(catalog.queues):
        path = f"queues[{index}]"
        if queue.instance not in catalog.instances and "instances" not in unread:
            hint = suggest(queue.instance, catalog.instances, what="instances")
            yield Problem(f"{path}.instance", f"{queue.instance!r} is no instance of this catalog; {hint}")
        yield from _queue(path, queue)
    yield from _instances(catalog)
    yield from _images(catalog)
    yield from _storage(catalog)
    yield from _labels_and_env(catalog)


def _labels_and_env(catalog: Catalog) -> Iterator[Problem]:
    for key, values in catalog.labels.allowed.items():
        if not values:
            yield Problem(f"labels.allowed.{key}", "must not be empty; name the values that the label may take")
    for index, entry in enumerate(catalog.persistent_env):
        for name in entry.env:
            why = reserved_env(name)
            if why is not None:
                yield Problem(f"persistent_env[{index}].env.{name}", why)


def _clusters(catalog: Catalog) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, entry in enumerate(catalog.clusters):
        if (entry.region, entry.cluster) in seen:
            yield Problem(f"clusters[{index}]", f"{entry.cluster!r} in {entry.region!r} is listed twice")
        seen.add((entry.region, entry.cluster))


def _defaults(catalog: Catalog) -> Iterator[Problem]:
    defaults = catalog.defaults
    regions, clusters = _regions(catalog), _cluster_names(catalog)
    yield from _missing("defaults.region", defaults.region, regions, "region")
    yield from _missing("defaults.cluster", defaults.cluster, clusters, "cluster")
    yield from _missing("defaults.project_group", defaults.project_group, catalog.project_groups, "project group")
    pair = (defaults.region, defaults.cluster)
    known = {(entry.region, entry.cluster) for entry in catalog.clusters}
    if all(pair) and known and pair not in known and defaults.region in regions and defaults.cluster in clusters:
        yield Problem("defaults.cluster", f"{defaults.cluster!r} is not in the region {defaults.region!r}")
    if defaults.default_queue and catalog.default_queue and defaults.default_queue != catalog.default_queue:
        yield Problem("default_queue", "differs from defaults.default_queue; keep one of them")


def _missing(path: str, name: str | None, known: Iterable[str], what: str) -> Iterator[Problem]:
    names = list(known)
    if name is not None and names and name not in names:
        yield Problem(path, f"{name!r} is no {what} of this catalog; {suggest(name, names, what=f'{what}s')}")


def _regions(catalog: Catalog) -> list[str]:
    return list(dict.fromkeys(entry.region for entry in catalog.clusters))


def _cluster_names(catalog: Catalog) -> list[str]:
    return list(dict.fromkeys(entry.cluster for entry in catalog.clusters))


def _narrowed(catalog: Catalog) -> Iterator[tuple[str, Narrowed]]:
    for section in ("queues", "persistent_env"):
        for index, entry in enumerate(getattr(catalog, section)):
            yield f"{section}[{index}]", entry
    for section in ("instances", "volumes", "datasets", "models"):
        for name, entry in getattr(catalog, section).items():
            yield f"{section}.{name}", entry
    for kind in ("preset", "custom"):
        for name, entry in getattr(catalog.images, kind).items():
            yield f"images.{kind}.{name}", entry


def _narrowing(catalog: Catalog, path: str, entry: Narrowed) -> Iterator[Problem]:
    known = {
        "regions": (_regions(catalog), "region"),
        "clusters": (_cluster_names(catalog), "cluster"),
        "project_groups": (list(catalog.project_groups), "project group"),
    }
    for field, (names, what) in known.items():
        for index, name in enumerate(getattr(entry, field)):
            yield from _missing(f"{path}.{field}[{index}]", name, names, what)


def _queue(path: str, entry: QueueEntry) -> Iterator[Problem]:
    if entry.type == "reserved" and entry.pool is None:
        yield Problem(f"{path}.pool", "is required for type reserved: shared, or a dedicated pool's name")
    for field, types in (
        ("pool", ("reserved",)),
        ("accept_idle", ("reserved",)),
        ("prefer_idle", ("reserved",)),
        ("guarantee", ("on_demand", "spot")),
        ("stability", ("idle", "reserved")),
    ):
        if getattr(entry, field) and entry.type not in types:
            yield Problem(f"{path}.{field}", f"can't match a task of type {entry.type}; it is for {', '.join(types)}")
    if entry.prefer_idle and not entry.accept_idle:
        yield Problem(f"{path}.prefer_idle", "can't match any task: prefer_idle needs accept_idle: true")


def _instances(catalog: Catalog) -> Iterator[Problem]:
    for name, entry in catalog.instances.items():
        held = [one for one in entry.resources if is_accelerator(one)]
        if entry.accelerator == "cpu" and held:
            yield Problem(f"instances.{name}.accelerator", f"is cpu, but the instance has {held[0]}; write gpu")


def _images(catalog: Catalog) -> Iterator[Problem]:
    for kind in ("preset", "custom"):
        for name, entry in getattr(catalog.images, kind).items():
            if not entry.versions:
                yield Problem(f"images.{kind}.{name}.versions", "must not be empty")


def _storage(catalog: Catalog) -> Iterator[Problem]:
    for name, entry in catalog.volumes.items():
        yield from _place(f"volumes.{name}", entry)
    for section in ("datasets", "models"):
        data: dict[str, StoredData] = getattr(catalog, section)
        for name, stored in data.items():
            yield from _data(f"{section}.{name}", stored)


def _data(path: str, entry: StoredData) -> Iterator[Problem]:
    if not entry.versions:
        yield from _place(path, entry)
    elif entry.pvc or entry.sub_path or entry.local:
        yield Problem(path, "has versions, so pvc, sub_path and local stand in each version and not beside them")
    for version, place in entry.versions.items():
        yield from _place(f"{path}.versions.{version}", place)
    if entry.default_version is not None:
        yield from _missing(f"{path}.default_version", entry.default_version, entry.versions, "version")


def _place(path: str, entry: StoredVersion) -> Iterator[Problem]:
    if entry.pvc is None and entry.local is None:
        yield Problem(path, "names no place; write `pvc` (a claim), `local` (a folder), or both")
