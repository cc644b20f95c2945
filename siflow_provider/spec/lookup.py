"""Look every name of a form up in the catalog: once leniently when a form is checked, once for good when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siflow_provider.spec.base import is_template, is_unknown, known_items
from siflow_provider.spec.compute import Idle
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.lookup_compute import IN_PLACE, flavor_of, flavors_of
from siflow_provider.spec.lookup_storage import mounts_of
from siflow_provider.spec.quantity import parse_quantity
from siflow_provider.spec.resolve import Defaults, Flavor, ResolvedTask
from siflow_provider.spec.scope import Findings, scope_of
from siflow_provider.spec.task import CatalogImage, RayJob, Task
from siflow_provider.spec.wording import listed, nearest, quote, suggest

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog, ImageEntry

__all__ = ["Lookup"]


class Lookup:
    """One task looked up in one catalog.

    Args:
        task: the form.
        catalog: None works for what needs no names.
        defaults: the connection's and the DAG's.
        user: `X_USER_NAME`; "" when unknown.
        final: the task is rendered and the connection known; else what is unknown is skipped.
    """

    def __init__(
        self, task: Task, catalog: Catalog | None, defaults: Defaults, *, user: str = "", final: bool = True
    ) -> None:
        self.task, self.catalog, self.defaults = task, catalog, defaults
        self.findings = Findings(final=final)
        self.scope = scope_of(task, catalog, defaults, user, self.findings)

    def resolved(self) -> ResolvedTask | None:
        """Return the resolved task; None when the findings hold errors, or too little is known yet."""
        image = self._image()
        flavors = flavors_of(self.task, self.catalog, self.scope, self._default_queue(), self.findings)
        self._shm(flavors)
        head = self._head(flavors)
        mounts = mounts_of(self.task, self.catalog, self.scope, self.findings)
        self._labels()
        self._alerts()
        if self.findings.errors or image is None or not flavors or not self.findings.final:
            return None
        env = self._env()
        catalog, cluster, filled = self.catalog, self.scope.entry, self._filled()
        group = catalog.project_groups.get(self.scope.project_group or "") if catalog is not None else None
        return ResolvedTask(
            task=self.task.model_copy(update=filled),
            image=image,
            env={name: value for name, value in env.items() if not isinstance(value, Hidden)},
            hidden={name: value for name, value in env.items() if isinstance(value, Hidden)},
            flavors=tuple(flavors),
            head=head,
            mounts=tuple(mounts),
            labels=dict(self.task.labels),
            namespace=(group.namespace if group is not None else None) or (cluster.namespace if cluster else None),
            context=cluster.context if cluster is not None else None,
            priority_class=self._priority_class(),
            org=catalog.identity.org if catalog is not None else "",
            tenant=catalog.identity.tenant if catalog is not None else "",
            owner=group.owner if group is not None else "",
            channels={name: one.connection for name, one in catalog.alerts.channels.items()} if catalog else {},
            dashboards=dict(cluster.dashboards) if cluster is not None else {},
            ttl_seconds_after_finished=self.defaults.ttl_seconds_after_finished,
            defaulted=frozenset(name for name in filled if getattr(self.task, name) is None),
        )

    def _filled(self) -> dict[str, Any]:
        catalog, task = self.catalog, self.task
        timezone = task.timezone or (catalog.defaults.timezone if catalog is not None else None)
        pulls = task.image_pull_retries
        if pulls is None and catalog is not None:
            pulls = catalog.defaults.image_pull_retries
        return {
            "region": self.scope.region,
            "cluster": self.scope.cluster,
            "project_group": self.scope.project_group,
            "timezone": timezone or self.defaults.timezone,
            "image_pull_retries": pulls,
        }

    def _default_queue(self) -> str | None:
        own = self.catalog.queue_without_catalog_instance if self.catalog is not None else None
        return own or self.defaults.default_queue

    def _priority_class(self) -> str | None:
        if self.catalog is None or isinstance(self.task.compute, Idle):
            return None
        return self.catalog.priorities.get(self.task.priority)

    def _image(self) -> str | None:
        image = self.task.image
        if not isinstance(image, CatalogImage):
            return str(image) if isinstance(image, str) else None
        if image.preset is not None and image.custom is not None:  # which is meant is not known
            self._image_entry("preset", image.preset)
            self._image_entry("custom", image.custom)
            return None
        kind = "preset" if image.preset is not None else "custom"
        name: Any = getattr(image, kind)
        if name is None or is_unknown(name):
            return f"{kind}:{name}:{image.version}" if is_template(name) else None
        entry = self._image_entry(kind, name)
        if entry is None or self.catalog is None:
            return None
        self._ray_in(entry, kind, name, getattr(self.catalog.images, kind))
        return self._image_version(entry, kind, name, image.version)

    def _image_entry(self, kind: str, name: Any) -> ImageEntry | None:
        if is_unknown(name):
            return None
        path = f"image.{kind}"
        if self.catalog is None:
            self.findings.wrong(path, f"{name!r} is a catalog name and there is no catalog; give one or write a URL")
            return None
        other = "custom" if kind == "preset" else "preset"
        entries: Mapping[str, ImageEntry] = getattr(self.catalog.images, kind)
        if name not in entries and name in getattr(self.catalog.images, other):
            self.findings.wrong(path, f"{name!r} is a {other} image; write {{{other}: {name}, version: ..}}")
            return None
        return self.scope.find(name, entries, f"{kind} image", path, self.findings)

    def _ray_in(self, entry: ImageEntry, kind: str, name: str, entries: Mapping[str, ImageEntry]) -> None:
        if not isinstance(self.task, RayJob):
            return
        if not entry.ray:
            good = [key for key, one in entries.items() if one.ray and self.scope.admits(one) is not False]
            self.findings.wrong(
                "image", f"the {kind} image {name!r} has no Ray; {kind} images with Ray: {listed(good)}"
            )
        elif not entry.ray_dashboard:
            message = (
                f"the {kind} image {name!r} lacks Ray's dashboard parts: no dashboard link, no job API on its port"
            )
            self.findings.doubtful("image", message)

    def _image_version(self, entry: ImageEntry, kind: str, name: str, version: Any) -> str | None:
        if is_unknown(version):
            return f"{kind}:{name}:{version}" if is_template(version) else None
        url = entry.versions.get(version)
        if url is None:
            hint = suggest(version, entry.versions, what="versions")
            self.findings.wrong("image.version", f"{version!r} is no version of the {kind} image {name!r}; {hint}")
        return url

    def _head(self, flavors: list[Flavor]) -> Flavor | None:
        if not isinstance(self.task, RayJob) or is_unknown(self.task.ray):
            return None
        head = self.task.ray.head
        if head is None or is_unknown(head) or is_unknown(head.instance):
            return None
        path = "ray.head.instance"
        flavor = flavor_of(head.instance, head.units, self.catalog, path, self.findings, scope=self.scope)
        like_workers = flavor is not None and all(
            (one.instance, one.resources) == (flavor.instance, flavor.resources) for one in flavors
        )
        return None if like_workers else flavor

    def _env(self) -> dict[str, str | Hidden]:
        env: dict[str, str | Hidden] = {}
        for entry in self.catalog.persistent_env if self.catalog is not None else ():
            if self.scope.admits(entry):
                env.update(entry.env)
        env.update(self.task.env)
        return env

    def _shm(self, flavors: list[Flavor]) -> None:
        shm = self.task.shm_size
        if shm is None or is_unknown(shm) or is_unknown(self.task.compute):
            return
        if is_unknown(self.task.compute.units_per_replica):
            return
        for flavor in flavors:
            if (
                flavor.instance != IN_PLACE
                and flavor.resources.memory
                and parse_quantity(shm) > flavor.resources.memory
            ):
                message = f"{shm} is more than the memory of a replica on {flavor.instance}; /dev/shm counts as memory"
                self.findings.doubtful("shm_size", message)

    def _labels(self) -> None:
        labels, catalog = self.task.labels, self.catalog
        if catalog is None or is_unknown(labels):
            return
        allowed = catalog.labels.allowed
        for key in catalog.labels.required:
            if key not in labels:
                values = f"; one of {listed(allowed[key])}" if key in allowed else ""
                self.findings.wrong(f"labels.{key}", f"is required by the catalog{values}")
        for key, value in labels.items():
            if key in allowed and not is_unknown(value) and value not in allowed[key]:
                hint = suggest(value, allowed[key], what="values")
                self.findings.wrong(f"labels.{key}", f"{quote(value)} is not allowed by the catalog; {hint}")

    def _alerts(self) -> None:
        channels = self.catalog.alerts.channels if self.catalog is not None else {}
        for at, alert in known_items(self.task.alerts):
            for index, name in known_items(alert.to):
                near = nearest(name, channels) if name not in channels else None
                if near is not None:
                    message = f"{quote(name)} is no channel of the catalog, so it is taken for an Airflow connection id"
                    self.findings.doubtful(
                        f"alerts[{at}].to[{index}]", f"{message}; did you mean the channel {near!r}?"
                    )
