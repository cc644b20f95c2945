"""The form, top level: `PyTorchJob` and `RayJob` (docs/reference/form.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    ModelWrapValidatorHandler,
    PlainValidator,
    Tag,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from siflow_provider.spec.base import ITEM, Form, Mode
from siflow_provider.spec.compute import Compute
from siflow_provider.spec.containers import NAME_OR_MAPPING, STRUCTURE
from siflow_provider.spec.env import ENV_SCHEMA, parse_env
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.image_url import image_url
from siflow_provider.spec.kube_names import MAX_PREFIX, label_key, label_value
from siflow_provider.spec.policy import Alert, FaultTolerance, KubernetesOptions, Monitoring
from siflow_provider.spec.ray import RaySection
from siflow_provider.spec.scalars import (
    Count,
    Filled,
    Flag,
    MarkValue,
    PositiveSeconds,
    Quantity,
    Text,
    Version,
    at_least,
    choice,
)
from siflow_provider.spec.storage import DatasetMount, ModelMount, VolumeMount
from siflow_provider.spec.wording import kind_of, quote, suggest
from siflow_provider.spec.wrongs import Wrong

__all__ = ["CatalogImage", "PyTorchJob", "RayJob", "Task", "known_timezone"]

_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)


class CatalogImage(Form):
    """An image of the catalog: exactly one of `preset` and `custom`, and its version."""

    preset: Filled | None = None
    """Name of a preset image."""
    custom: Filled | None = None
    """Name of a custom image."""
    version: Version
    """The image's version."""


def _image_tag(value: Any) -> str:
    return "\0catalog" if isinstance(value, Mapping | CatalogImage) else "\0url"


def _image_shape(value: Any) -> Any:
    if isinstance(value, str | Mapping):
        return value
    shapes = "an image's URL, {preset: NAME, version: V} or {custom: NAME, version: V}"
    raise Wrong(f"must be {shapes}, not {kind_of(value)}")


Image = Annotated[
    Annotated[Text, AfterValidator(image_url), Tag("\0url")] | Annotated[CatalogImage, Tag("\0catalog")],
    Discriminator(_image_tag),
    BeforeValidator(_image_shape),
    NAME_OR_MAPPING,
]


def _name_prefix(name: str) -> str:
    if len(name) <= MAX_PREFIX and _PREFIX.fullmatch(name):
        return name
    mended = re.sub(r"[^a-z0-9]+", "-", name.lower())[:MAX_PREFIX].strip("-")
    rule = f"lower-case letters, digits and '-', a letter or digit at both ends, at most {MAX_PREFIX} characters"
    raise Wrong(f"{quote(name)} is no name prefix; {rule}" + (f"; did you mean {mended!r}?" if mended else ""))


@lru_cache(maxsize=256)
def _is_timezone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name).key)
    except (ValueError, OSError, LookupError):
        return False


def known_timezone(name: str) -> str:
    """Return the name when it is in the tz database.

    Raises:
        ValueError: it is not; the message names the nearest.
    """
    if _is_timezone(name):
        return name
    raise Wrong(
        f"{quote(name)} is not in the tz database; {suggest(name, sorted(available_timezones()), what='such as')}"
    )


def _command(command: Any) -> str:
    if isinstance(command, list | tuple):
        raise Wrong("must be one text, run by bash -c; join a list of words with shlex.join")
    if not isinstance(command, str):
        raise Wrong(f"must be text, not {kind_of(command)}")
    if not command.strip():
        raise Wrong("must not be blank")
    return command


Command = Annotated[Text, BeforeValidator(_command)]
Env = Annotated[dict[str, str | Hidden], PlainValidator(parse_env), STRUCTURE, WithJsonSchema(ENV_SCHEMA)]
Labels = Annotated[
    dict[
        Annotated[Text, AfterValidator(label_key)],
        Annotated[Annotated[MarkValue, AfterValidator(label_value)], ITEM],
    ],
    STRUCTURE,
]
PullRetries = Annotated[
    int,
    at_least(-1, "; -1 = never give up, 0 = the first failed pull fails the task"),
    WithJsonSchema({"type": "integer", "minimum": -1}),
]


class _Task(Form):
    region: Filled | None = None
    """Region; left out: the connection's."""
    cluster: Filled | None = None
    """Cluster; left out: the connection's."""
    project_group: Filled | None = None
    """Project group; left out: the connection's."""
    name_prefix: Annotated[Text, AfterValidator(_name_prefix)] | None = None
    """First part of the job's name; left out: made from the DAG's and task's ids."""
    visible_in_group: Flag = False
    """Show the task to the whole group and not to its owner only."""
    timezone: Annotated[Text, AfterValidator(known_timezone)] | None = None
    """IANA name; left out: the DAG's."""
    labels: Labels = {}
    """Labels on the job and all its replicas."""

    image: Image
    """Image URL, `{preset, version}` or `{custom, version}`."""
    env: Env = {}
    """Environment: name -> value, or `{value, hidden: true}`."""
    volumes: Annotated[tuple[Annotated[VolumeMount, STRUCTURE, ITEM], ...], STRUCTURE] = ()
    """Volumes to mount."""
    datasets: Annotated[tuple[Annotated[DatasetMount, STRUCTURE, ITEM], ...], STRUCTURE] = ()
    """Datasets to mount, read-only."""
    models: Annotated[tuple[Annotated[ModelMount, STRUCTURE, ITEM], ...], STRUCTURE] = ()
    """Models to mount, read-only by default."""
    command: Command
    """Shell text, run as `bash -c COMMAND`; a RayJob's entrypoint."""
    shm_size: Quantity | None = None
    """Size of /dev/shm; left out: half the memory."""

    compute: Compute
    """What a replica runs on."""
    workers: Count = 0
    """Workers beside the master (PyTorchJob) or head (RayJob)."""
    priority: Annotated[Literal["high", "medium", "low"], choice("high", "medium", "low")] = "medium"
    """Place in the queue."""

    queue_timeout: PositiveSeconds | None = None
    """Give up after this long in the queue."""
    start_timeout: PositiveSeconds | None = None
    """Give up when not all replicas run this long after admission."""
    fault_tolerance: Annotated[FaultTolerance, STRUCTURE] | None = None
    """Retries of the whole gang inside one Airflow try, and hang detection."""
    monitoring: Annotated[Monitoring, STRUCTURE] | None = None
    """Where the task serves its metrics."""
    image_pull_retries: PullRetries | None = None
    """0: the first failed pull fails the task; -1: never give up; N: give up after N."""
    ssh: Flag = False
    """Passwordless SSH between all replicas."""
    alerts: Annotated[tuple[Annotated[Alert, STRUCTURE, ITEM], ...], STRUCTURE] = ()
    """Whom to tell about what."""
    kubernetes: Annotated[KubernetesOptions, STRUCTURE] = KubernetesOptions()
    """Escape hatch for cluster users."""

    @model_validator(mode="wrap")
    @classmethod
    def _told_whole(cls, data: Any, handler: ModelWrapValidatorHandler[_Task], info: ValidationInfo) -> _Task:
        """Give a model made in Python the same rules and the same SpecError as a file."""
        if isinstance(info.context, Mode) or not isinstance(data, dict):
            return handler(data)
        from siflow_provider.spec.reading import expect

        try:
            task = handler(data)
        except ValidationError:
            task = None
        expect(data, kind=cls.__name__)
        return task if task is not None else handler(data)

    @model_serializer(mode="plain")
    def _as_data(self) -> dict[str, Any]:
        """Serialize as the form is written: hidden values masked, templates as text."""
        from siflow_provider.spec.writing import to_data

        return to_data(self)  # type: ignore[arg-type] # only the two kinds are ever made


class PyTorchJob(_Task):
    """A gang of one master and `workers` workers that meet by torch's rendezvous."""

    kind: Literal["PyTorchJob"] = "PyTorchJob"


class RayJob(_Task):
    """A Ray cluster of one head and `workers` workers, and one command run on it."""

    kind: Literal["RayJob"] = "RayJob"
    ray: Annotated[RaySection, STRUCTURE] = RaySection()
    """What only a RayJob has."""


Task = PyTorchJob | RayJob
