"""What an admin keeps: the names that forms may use, and what they mean on each cluster.

The key names are a public contract; unknown ones are refused with the nearest. The catalog is data: looking a task's
names up in it is `siflow_provider.spec.lookup`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, PlainValidator

from siflow_provider.spec.base import Data
from siflow_provider.spec.containers import STRUCTURE
from siflow_provider.spec.env import parse_env
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.image_url import image_url
from siflow_provider.spec.kube_names import dns_name, label_key
from siflow_provider.spec.kube_objects import Toleration
from siflow_provider.spec.mount_paths import sub_path
from siflow_provider.spec.scalars import Filled, Flag, MarkValue, Quantity, Text, Version, at_least, choice
from siflow_provider.spec.task import known_timezone

__all__ = [
    "Access",
    "AlertChannels",
    "Catalog",
    "CatalogDefaults",
    "Channel",
    "ClusterEntry",
    "GroupEntry",
    "IdentityEntry",
    "ImageEntry",
    "Images",
    "InstanceEntry",
    "LabelPolicy",
    "Narrowed",
    "PersistentEnv",
    "QueueEntry",
    "StoredData",
    "StoredVersion",
    "VolumeEntry",
]

_LEVELS = ("high", "medium", "low")
_ACCESS = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
Key = Annotated[Text, AfterValidator(label_key)]
Name = Annotated[Filled, AfterValidator(dns_name)]
SubPath = Annotated[Text, AfterValidator(sub_path)]
Names = Annotated[tuple[Filled, ...], STRUCTURE]
Access = Annotated[Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"], choice(*_ACCESS)]
Level = Annotated[Literal["high", "medium", "low"], choice(*_LEVELS)]


class Narrowed(Data):
    """An entry that not everybody may use; a list left out narrows nothing."""

    regions: Names = ()
    """Only in these regions."""
    clusters: Names = ()
    """Only in these clusters."""
    project_groups: Names = ()
    """Only for these project groups."""
    users: Names = ()
    """Only for these users (X_USER_NAME)."""


class ClusterEntry(Data):
    """A cluster, and how it is reached and watched."""

    region: Filled
    """Its region."""
    cluster: Filled
    """Its name."""
    context: Filled | None = None
    """kubeconfig context; the connection's own when left out."""
    namespace: Name | None = None
    """Where tasks go whose project group names none."""
    dashboards: Annotated[dict[Text, Text], STRUCTURE] = {}
    """Link templates by name; `{name}` and `{ns}`/`{namespace}` are filled in."""


class IdentityEntry(Data):
    """What every task sees as X_ORG_NAME and X_TENANT_ID."""

    org: Text = ""
    tenant: Text = ""


class CatalogDefaults(Data):
    """What a task gets that does not say; stronger than the connection's and the DAG's."""

    region: Filled | None = None
    cluster: Filled | None = None
    project_group: Filled | None = None
    timezone: Annotated[Text, AfterValidator(known_timezone)] | None = None
    image_pull_retries: Annotated[int, at_least(-1)] | None = None
    default_queue: Name | None = None
    """Queue of tasks with in-place instances."""


class GroupEntry(Data):
    """A project group."""

    namespace: Name | None = None
    """Its namespace."""
    owner: Text = ""
    """Who answers for it."""


class InstanceEntry(Narrowed):
    """A kind of capacity: what one unit of it gives."""

    accelerator: Annotated[Literal["gpu", "cpu"], choice("gpu", "cpu")] | None = None
    """Left out: gpu when the resources name an accelerator."""
    resources: Annotated[dict[Filled, Quantity], STRUCTURE]
    """cpu, memory and accelerators of one unit."""
    node_selector: Annotated[dict[Key, MarkValue], STRUCTURE] = {}
    """Labels of its nodes."""
    tolerations: Annotated[tuple[Toleration, ...], STRUCTURE] = ()
    """Taints of its nodes."""


class QueueEntry(Narrowed):
    """Where a task of this resource type and instance queues; the first entry that matches wins."""

    type: Annotated[Literal["reserved", "on_demand", "spot", "idle"], choice("reserved", "on_demand", "spot", "idle")]
    pool: Filled | None = None
    """reserved only: `shared` or a dedicated pool's name."""
    instance: Filled
    guarantee: Flag = False
    accept_idle: Flag = False
    prefer_idle: Flag = False
    stability: Annotated[tuple[Level, ...], STRUCTURE] = ()
    """It must contain the stability that the task asks for."""
    queue: Name
    """LocalQueue name."""
    resource_pool: Filled | None = None
    """The pool's name on the SiFlow platform."""


class ImageEntry(Narrowed):
    """An image and its versions."""

    ray: Flag = False
    """It holds Ray."""
    ray_dashboard: Flag = True
    """False: it holds Ray without the dashboard's parts."""
    versions: Annotated[dict[Version, Annotated[Text, AfterValidator(image_url)]], STRUCTURE]
    """Version -> URL."""


class Images(Data):
    """Images by the two ways in which a form names them."""

    preset: Annotated[dict[Filled, Annotated[ImageEntry, STRUCTURE]], STRUCTURE] = {}
    custom: Annotated[dict[Filled, Annotated[ImageEntry, STRUCTURE]], STRUCTURE] = {}


class StoredVersion(Data):
    """Where something lies."""

    pvc: Name | None = None
    """PersistentVolumeClaim."""
    sub_path: SubPath | None = None
    """Path inside the claim; `{user}` stands for the user's name."""
    access: Access | None = None
    """Access mode of the claim."""
    local: Filled | None = None
    """The folder that the embedded backend uses."""
    read_only: Flag | None = None
    """True: nobody may write to it."""


class VolumeEntry(Narrowed, StoredVersion):
    """A volume."""


class StoredData(Narrowed, StoredVersion):
    """A dataset or model: by version, or (without versions) one thing that lies at one place."""

    versions: Annotated[dict[Version, Annotated[StoredVersion, STRUCTURE]], STRUCTURE] = {}
    default_version: Version | None = None
    """Taken when a task names no version and there are several."""


class LabelPolicy(Data):
    """What labels a task must have, and which values they may take."""

    required: Annotated[tuple[Key, ...], STRUCTURE] = ()
    allowed: Annotated[dict[Key, Annotated[tuple[MarkValue, ...], STRUCTURE]], STRUCTURE] = {}


class PersistentEnv(Narrowed):
    """Environment that every task of these groups or users gets; the task's own values win."""

    env: Annotated[dict[str, str | Hidden], PlainValidator(parse_env), STRUCTURE]


class Channel(Data):
    """Where alerts of a channel go."""

    connection: Filled
    """Airflow connection id."""


class AlertChannels(Data):
    """Alert channels by name."""

    channels: Annotated[dict[Filled, Annotated[Channel, STRUCTURE]], STRUCTURE] = {}


class Catalog(Data):
    """The whole catalog. Everything in it is optional: what is left out is not checked."""

    clusters: Annotated[tuple[Annotated[ClusterEntry, STRUCTURE], ...], STRUCTURE] = ()
    identity: Annotated[IdentityEntry, STRUCTURE] = IdentityEntry()
    defaults: Annotated[CatalogDefaults, STRUCTURE] = CatalogDefaults()
    default_queue: Name | None = None
    """The same as `defaults.default_queue`."""
    project_groups: Annotated[dict[Filled, Annotated[GroupEntry, STRUCTURE]], STRUCTURE] = {}
    instances: Annotated[dict[Filled, Annotated[InstanceEntry, STRUCTURE]], STRUCTURE] = {}
    queues: Annotated[tuple[Annotated[QueueEntry, STRUCTURE], ...], STRUCTURE] = ()
    priorities: Annotated[dict[Level, Name], STRUCTURE] = {}
    images: Annotated[Images, STRUCTURE] = Images()
    volumes: Annotated[dict[Filled, Annotated[VolumeEntry, STRUCTURE]], STRUCTURE] = {}
    datasets: Annotated[dict[Filled, Annotated[StoredData, STRUCTURE]], STRUCTURE] = {}
    models: Annotated[dict[Filled, Annotated[StoredData, STRUCTURE]], STRUCTURE] = {}
    labels: Annotated[LabelPolicy, STRUCTURE] = LabelPolicy()
    persistent_env: Annotated[tuple[Annotated[PersistentEnv, STRUCTURE], ...], STRUCTURE] = ()
    alerts: Annotated[AlertChannels, STRUCTURE] = AlertChannels()

    @property
    def queue_without_catalog_instance(self) -> str | None:
        """The queue of tasks with in-place instances."""
        return self.defaults.default_queue or self.default_queue
