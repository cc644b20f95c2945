"""What is kept of a try, where there is a task instance and where Airflow knows none."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.core.outcome import AlertRule
from siflow_provider.hooks.process import uncut
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


async def test_a_request_whose_asker_is_cancelled_gets_its_answer_before_the_next_one_asks() -> None:
    """A triggerer of Airflow 3.1 dies of an answer that nobody waits for any more."""
    asked, answer, answered = asyncio.Event(), asyncio.Event(), []

    async def ask() -> None:
        asked.set()
        await answer.wait()
        answered.append("answer")

    asking = asyncio.create_task(uncut(ask()))
    await asked.wait()
    for word in ("the task was marked failed", "once more"):  # Airflow cancels each second until it ends
        asking.cancel(word)
        await asyncio.wait({asking}, timeout=0.01)
        assert not asking.done()
    answer.set()
    with pytest.raises(asyncio.CancelledError, match="the task was marked failed"):
        await asking
    assert answered == ["answer"]
