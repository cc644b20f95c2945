"""What the author may choose beside the work itself: retries, monitoring, alerts, the escape hatch for Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag

from siflow_provider.spec.base import ITEM, Form
from siflow_provider.spec.containers import STRUCTURE
from siflow_provider.spec.form_names import FAILURE_CLASSES
from siflow_provider.spec.kube_names import dns_name, label_key
from siflow_provider.spec.kube_objects import Toleration, checked_patch
from siflow_provider.spec.scalars import Count, Filled, MarkValue, Port, PositiveSeconds, Text, choice
from siflow_provider.spec.wording import kind_of, quote, suggest
from siflow_provider.spec.wrongs import Wrong

__all__ = ["ALERT_EVENTS", "Alert", "FaultTolerance", "KubernetesOptions", "Monitoring", "QueuedTooLong"]

ALERT_EVENTS = ("submitted", "started", "retrying", "hang", "succeeded", "failed", "stopped", "never_admissible")
AlertEvent = Literal["submitted", "started", "retrying", "hang", "succeeded", "failed", "stopped", "never_admissible"]


class FaultTolerance(Form):
    """Retries of the whole gang inside one Airflow try, and what counts as a hang."""

    max_retries: Count = 0
    """Resubmissions at most."""
    retry_on: Annotated[tuple[Annotated[str, choice(*FAILURE_CLASSES), ITEM], ...], STRUCTURE] | None = None
    """Failure classes to retry; left out: those that a retry can cure."""
    hang_timeout: PositiveSeconds | None = None
    """Time without a log line or progress report that counts as a hang."""


def _metrics_path(path: str) -> str:
    if not path.startswith("/"):
        raise Wrong(f"{path!r} does not start with '/'; did you mean {'/' + path!r}?")
    return path


class Monitoring(Form):
    """Where the task serves its metrics."""

    port: Port
    """Port, 1 to 65535."""
    path: Annotated[Filled, AfterValidator(_metrics_path)] = "/metrics"
    """Path, starting with /."""


class QueuedTooLong(Form):
    """The alert event that has a length: seconds in the queue."""

    queued_too_long: PositiveSeconds
    """Time in the queue after which the alert is sent."""


def _event_tag(value: Any) -> str:
    return "\0length" if isinstance(value, Mapping | QueuedTooLong) else "\0name"


def _event_shape(value: Any) -> Any:
    if isinstance(value, Mapping):
        named = next((key for key in value if isinstance(key, str) and key in ALERT_EVENTS), None)
        if named is not None and "queued_too_long" not in value:
            raise Wrong(f"{named} takes no length, only queued_too_long does; write the name alone: {named}")
        return value
    if value == "queued_too_long":
        raise Wrong("queued_too_long needs its length: {queued_too_long: 30m}")
    if isinstance(value, str) and value in ALERT_EVENTS:
        return value
    names = (*ALERT_EVENTS, "queued_too_long")
    shown = quote(value) if isinstance(value, str) else kind_of(value)
    raise Wrong(f"{shown} is no alert event; {suggest(value, names, what='events')}")


Event = Annotated[
    Annotated[AlertEvent, Tag("\0name")] | Annotated[QueuedTooLong, Tag("\0length")],
    Discriminator(_event_tag),
    BeforeValidator(_event_shape),
    ITEM,
]


def _not_empty(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if not value:
        raise Wrong("must not be empty")
    return value


class Alert(Form):
    """Who is told about which events. `to`: catalog channels, else Airflow connection ids."""

    events: Annotated[tuple[Event, ...], STRUCTURE, AfterValidator(_not_empty)]
    """When to tell."""
    to: Annotated[tuple[Annotated[Filled, ITEM], ...], STRUCTURE, AfterValidator(_not_empty)]
    """Whom: channels of the catalog, else Airflow connection ids."""
    message: Filled | None = None
    """The author's own text."""


Key = Annotated[Text, AfterValidator(label_key)]
Name = Annotated[Filled, AfterValidator(dns_name)]


class KubernetesOptions(Form):
    """The escape hatch for cluster users; `patch` is an RFC 7396 merge patch on the rendered object."""

    patch: Annotated[dict[str, Any], STRUCTURE, AfterValidator(checked_patch)] = {}
    """RFC 7396 merge patch on the rendered object."""
    service_account: Name | None = None
    """ServiceAccount of every pod."""
    image_pull_secrets: Annotated[tuple[Annotated[Name, ITEM], ...], STRUCTURE] = ()
    """Secrets with registry credentials."""
    node_selector: Annotated[dict[Key, Annotated[MarkValue, ITEM]], STRUCTURE] = {}
    """Labels that the nodes must have."""
    tolerations: Annotated[tuple[Annotated[Toleration, ITEM], ...], STRUCTURE] = ()
    """Taints that the pods tolerate, as Kubernetes writes them."""
    annotations: Annotated[dict[Key, Annotated[MarkValue, ITEM]], STRUCTURE] = {}
    """Annotations on the job and all pods."""
