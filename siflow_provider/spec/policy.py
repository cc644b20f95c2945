"""What the author may choose beside the work itself: retries, monitoring, alerts, the escape hatch for Kubernetes."""

from __future__ import annotations

from typing import Any, Literal

from siflow_provider.spec.base import Form

__all__ = ["ALERT_EVENTS", "Alert", "FaultTolerance", "KubernetesOptions", "Monitoring", "QueuedTooLong"]

ALERT_EVENTS = ("submitted", "started", "retrying", "hang", "succeeded", "failed", "stopped", "never_admissible")
AlertEvent = Literal["submitted", "started", "retrying", "hang", "succeeded", "failed", "stopped", "never_admissible"]


class FaultTolerance(Form):
    """Retries of the whole gang inside one Airflow try.

    Attributes:
        max_retries: resubmissions at most.
        retry_on: failure classes to retry; None = those that a retry can cure.
        hang_timeout: seconds without a log line or progress report while running.
    """

    max_retries: int = 0
    retry_on: tuple[str, ...] | None = None
    hang_timeout: float | None = None


class Monitoring(Form):
    """Where the task serves its metrics."""

    port: int
    path: str = "/metrics"


class QueuedTooLong(Form):
    """The alert event that has a length: seconds in the queue."""

    queued_too_long: float


class Alert(Form):
    """Who is told about which events. `to`: catalog channels, else Airflow connection ids."""

    events: tuple[AlertEvent | QueuedTooLong, ...]
    to: tuple[str, ...]
    message: str | None = None


class KubernetesOptions(Form):
    """The escape hatch for cluster users; `patch` is an RFC 7396 merge patch on the rendered object."""

    patch: dict[str, Any] = {}
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    annotations: dict[str, str] = {}
