"""From the form to what a follower needs: small, JSON, no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.core.outcome import AlertRule, FollowPolicy
from siflow_provider.spec.compute import Idle, OnDemand, Spot
from siflow_provider.spec.policy import FaultTolerance, QueuedTooLong

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.core.status import LogSelection
    from siflow_provider.spec.policy import Alert
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["alert_rules", "follow_policy"]


def follow_policy(
    task: ResolvedTask, *, logs: LogSelection = "master", deadline: datetime | None = None
) -> FollowPolicy:
    """Return the policy of a run.

    Args:
        task: the resolved task.
        logs: whose lines the caller wants to see.
        deadline: when the whole Airflow try must be over; None = no limit.
    """
    form = task.task
    tolerance = form.fault_tolerance or FaultTolerance()
    return FollowPolicy(
        logs=logs,
        deadline=deadline,
        queue_timeout=form.queue_timeout,
        start_timeout=form.start_timeout,
        hang_timeout=tolerance.hang_timeout,
        image_pull_retries=form.image_pull_retries,
        max_retries=tolerance.max_retries,
        retry_on=tolerance.retry_on,
        alerts=alert_rules(task),
        timezone=form.timezone or "UTC",
        fallback_after=_fallback_after(task),
    )


def alert_rules(task: ResolvedTask) -> tuple[AlertRule, ...]:
    """Return the form's `alerts` with connection ids: a catalog channel's, or the name itself where it is none."""
    return tuple(
        AlertRule(
            events=_events(alert),
            connections=tuple(dict.fromkeys(task.channels.get(name, name) for name in alert.to)),
            message=alert.message,
        )
        for alert in task.task.alerts
    )


def _events(alert: Alert) -> dict[str, float]:
    return dict(
        ("queued_too_long", float(event.queued_too_long)) if isinstance(event, QueuedTooLong) else (str(event), 0.0)
        for event in alert.events
    )


def _fallback_after(task: ResolvedTask) -> float | None:
    compute = task.task.compute
    if isinstance(compute, OnDemand | Spot | Idle) and len(task.flavors) > 1:
        return compute.fallback_after
    return None
