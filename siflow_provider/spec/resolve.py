"""A task with every catalog name looked up and every default filled in: all that a backend needs, and no catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from siflow_provider.errors import SpecError
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.task import RayJob, Task

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog

__all__ = ["Defaults", "Flavor", "Mount", "ResolvedTask", "resolve"]


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the connection and the DAG give where task and catalog are silent (weaker than both).

    Attributes:
        region, cluster, project_group, default_queue: the connection's.
        timezone: the DAG's.
        ttl_seconds_after_finished: the connection's: how long an ended job stays; None = until somebody deletes it.
    """

    region: str | None = None
    cluster: str | None = None
    project_group: str | None = None
    default_queue: str | None = None
    timezone: str | None = None
    ttl_seconds_after_finished: float | None = None


@dataclass(frozen=True, slots=True)
class Flavor:
    """One listed instance as a place to run: what a replica gets there, and the queue that leads to it.

    Attributes:
        instance: the catalog's name; "in-place" for amounts written in the form.
        resources: what one replica gets (instance x units_per_replica).
        queue: LocalQueue name; None when neither catalog nor connection names one.
        resource_pool: the pool's name on the SiFlow platform, where the catalog gives one.
        node_selector, tolerations: what its nodes ask for.
        accelerator: the kind, `gpu` or `cpu`.
    """

    instance: str
    resources: Resources
    queue: str | None = None
    resource_pool: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, object], ...] = ()
    accelerator: str = "cpu"

    @property
    def gpus(self) -> float:
        """Accelerators of one replica; none on an instance that the catalog calls `cpu`, whatever else it holds."""
        return self.resources.gpus if self.accelerator == "gpu" else 0.0


@dataclass(frozen=True, slots=True)
class Mount:
    """One thing at one path of every replica.

    Attributes:
        source: volume, dataset, model or shared_storage.
        name: its catalog name; the claim's name for `pvc:NAME`.
        mount_path: absolute path in the replica.
        pvc: the PersistentVolumeClaim.
        sub_path: path in the claim, `{user}` filled in; "" for all of it.
        read_only: as the form and the source say.
        local: folder for the embedded backend, `~` not yet expanded; None when the catalog gives none.
        version: of a dataset or model.
    """

    source: Literal["volume", "dataset", "model", "shared_storage"]
    name: str
    mount_path: str
    pvc: str | None = None
    sub_path: str = ""
    read_only: bool = False
    local: str | None = None
    version: str | None = None
    access: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedTask:
    """A validated task and what its names mean.

    Attributes:
        task: the form, defaults filled in where they are fields of the form (region, cluster, timezone, ...).
        image: the image's URL.
        env: plain values: persistent env below, the task's own above. Hidden ones apart, in `hidden`.
        flavors: one a listed instance, best first; never empty.
        head: the Ray head's own flavor; None for a PyTorchJob or a head like the workers.
        mounts: in the order volumes, datasets, models, shared storage.
        labels: the task's own.
        namespace: of the project group; None when the catalog gives none.
        context: kubeconfig context of the cluster; None = the connection's own.
        priority_class: WorkloadPriorityClass name; None without a catalog entry.
        org, tenant: X_ORG_NAME and X_TENANT_ID; "" without.
        owner: the project group's.
        channels: alert channel -> Airflow connection id.
        dashboards: link templates of the cluster (`{name}`, `{ns}`).
        ttl_seconds_after_finished: how long its ended job stays; None = until somebody deletes it.
        defaulted: names of the form's fields that the task left to a default of catalog, connection or DAG.
    """

    task: Task
    image: str
    env: Mapping[str, str]
    hidden: Mapping[str, Hidden]
    flavors: tuple[Flavor, ...]
    head: Flavor | None = None
    mounts: tuple[Mount, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None
    context: str | None = None
    priority_class: str | None = None
    org: str = ""
    tenant: str = ""
    owner: str = ""
    channels: Mapping[str, str] = field(default_factory=dict)
    dashboards: Mapping[str, str] = field(default_factory=dict)
    ttl_seconds_after_finished: float | None = None
    defaulted: frozenset[str] = frozenset()

    @property
    def replicas(self) -> int:
        """Master or head, and the workers."""
        return 1 + self.task.workers

    @property
    def workers_to_start(self) -> int:
        """The workers that must be there for the start: with autoscaling its minimum, else all."""
        bounds = self.task.ray.autoscaling if isinstance(self.task, RayJob) else None
        return self.task.workers if bounds is None else bounds.min_workers


def resolve(
    task: Task,
    catalog: Catalog | None = None,
    defaults: Defaults | None = None,
    *,
    user: str = "",
    templates: bool = False,
) -> ResolvedTask:
    """Return the task with every catalog name looked up and every default filled in.

    Args:
        task: a rendered task.
        catalog: what its names mean; without one, image URLs, `pvc:NAME` and in-place instances still work.
        defaults: the connection's and the DAG's, weaker than task and catalog.
        user: `X_USER_NAME`, for `{user}` in sub paths and for entries that are narrowed to users.
        templates: to show a task and not to run it: each template that stands for a single value is left as it is.

    Raises:
        SpecError: with every name that can't be looked up, and every template that had to be rendered first.
    """
    from siflow_provider.spec.lookup import Lookup
    from siflow_provider.spec.unrendered import deciding_templates, template_sections

    unrendered = template_sections(task) if templates else list(deciding_templates(task))
    if unrendered:
        raise SpecError(unrendered)
    lookup = Lookup(task, catalog, defaults or Defaults(), user=user, final=True)
    resolved = lookup.resolved()
    if resolved is None:
        raise SpecError(lookup.findings.errors)
    return resolved
