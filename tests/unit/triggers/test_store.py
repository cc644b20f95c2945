"""What is kept of a try, where there is a task instance and where Airflow knows none."""

from __future__ import annotations

from siflow_provider.core.outcome import AlertRule
from siflow_provider.triggers.shown import trigger_logs
from siflow_provider.triggers.store import Store


async def test_without_a_task_instance_nothing_is_kept_and_nothing_fails() -> None:
    store = Store(None)
    assert await store.put("key", 1) is False
    assert await store.get("key") is None
    assert trigger_logs(None) == []


async def test_an_alert_is_claimed_once_even_without_a_task_instance() -> None:
    store = Store(None)
    rule = AlertRule(events={"failed": 0.0}, connections=("channel",))
    assert [await store.claim_alert(rule, "failed", 1), await store.claim_alert(rule, "failed", 1)] == [True, False]
