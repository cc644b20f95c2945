from __future__ import annotations

from datetime import UTC, datetime

from siflow_provider.core.outcome import AlertRule, FollowPolicy
from siflow_provider.core.policy import follow_policy
from tests.unit.core.tasks import make_task


def test_a_plain_task_has_no_limits_and_no_alerts() -> None:
    assert follow_policy(make_task()) == FollowPolicy()


def test_every_field_of_the_form_that_a_follower_needs_is_carried() -> None:
    task = make_task(
        queue_timeout=3600.0,
        start_timeout=900.0,
        image_pull_retries=3,
        timezone="Asia/Shanghai",
        fault_tolerance={"max_retries": 2, "retry_on": ("hang",), "hang_timeout": 1800.0},
    )
    deadline = datetime(2026, 1, 2, tzinfo=UTC)
    assert follow_policy(task, logs=("worker-1",), deadline=deadline) == FollowPolicy(
        logs=("worker-1",),
        deadline=deadline,
        queue_timeout=3600.0,
        start_timeout=900.0,
        image_pull_retries=3,
        timezone="Asia/Shanghai",
        max_retries=2,
        retry_on=("hang",),
        hang_timeout=1800.0,
    )


def test_alert_channels_become_connections_and_other_names_are_connections() -> None:
    alerts = (
        {
            "events": ("failed", {"queued_too_long": 1800.0}),
            "to": ("oncall", "slack_default", "oncall2"),
            "message": "!",
        },
        {"events": ("succeeded",), "to": ("oncall",)},
    )
    task = make_task(alerts=alerts, channels={"oncall": "feishu_oncall", "oncall2": "feishu_oncall"})
    assert follow_policy(task).alerts == (
        AlertRule(
            events={"failed": 0.0, "queued_too_long": 1800.0},
            connections=("feishu_oncall", "slack_default"),
            message="!",
        ),
        AlertRule(events={"succeeded": 0.0}, connections=("feishu_oncall",)),
    )


def test_a_task_moves_only_where_another_instance_is_listed() -> None:
    assert follow_policy(make_task(flavors=("a",))).fallback_after is None
    assert follow_policy(make_task(flavors=("a", "b"))).fallback_after == 600.0
    idle = {"type": "idle", "stability": "high", "instances": [{"cpu": "1", "memory": "1Gi"}], "fallback_after": 60}
    assert follow_policy(make_task(flavors=("a", "b"), compute=idle)).fallback_after == 60.0


def test_a_policy_survives_the_database() -> None:
    task = make_task(flavors=("a", "b"), alerts=({"events": ("failed",), "to": ("x",)},))
    policy = follow_policy(task, logs=("worker-1",), deadline=datetime(2026, 1, 2, tzinfo=UTC))
    assert FollowPolicy.model_validate_json(policy.model_dump_json()) == policy
