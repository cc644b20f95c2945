"""What is kept of a try, where there is a task instance and where Airflow knows none."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from siflow_provider.core.outcome import AlertRule
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.core.veil import Veil
from siflow_provider.hooks.process import uncut
from siflow_provider.links import LINKS_KEY
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.shown import trigger_logs
from siflow_provider.triggers.store import Store
from tests.unit.triggers.airflow import Airflow


async def test_without_a_task_instance_nothing_is_kept_and_nothing_fails() -> None:
    store = Store(None)
    assert await store.put("key", 1) is False
    assert await store.get("key") is None
    assert trigger_logs(None) == []


RULE = AlertRule(events={"submitted": 0.0, "stopped": 0.0}, connections=("channel",))


def snapshot(run: str) -> Status:
    ref = JobRef(backend="local", kind="PyTorchJob", name=f"d-t-{run}", uid=f"uid-of-{run}", task_uuid=f"uuid-of-{run}")
    return Status(ref, Phase.STOPPED)


def reporter() -> TaskReporter:
    instance = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1)
    return TaskReporter(logging.getLogger(__name__), Store(instance), veil=Veil())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the messages that are sent from now on."""
    messages: list[tuple[str, str]] = []

    async def send(_: AlertRule, event: str, status: Status, __: str) -> None:
        messages.append((status.ref.name, event))

    monkeypatch.setattr("siflow_provider.triggers.reporter.send_alert", send)
    return messages


async def test_airflow_finds_that_a_run_has_no_links_and_logs_no_error_for_each(airflow: Airflow) -> None:
    await reporter().links({})
    assert airflow.xcoms[LINKS_KEY] == {}


async def test_an_alert_is_sent_once_even_without_a_task_instance(sent: list[tuple[str, str]]) -> None:
    nowhere = TaskReporter(logging.getLogger(__name__), Store(None), veil=Veil())
    for _ in range(2):
        await nowhere.alert(RULE, "stopped", snapshot("one"), "it was stopped")
    assert sent == [("d-t-one", "stopped")]


async def test_a_cleared_try_that_stops_its_run_late_takes_no_message_from_the_next_try(
    airflow: Airflow, sent: list[tuple[str, str]]
) -> None:
    """The old try's XComs are gone by then, and what it writes lies among those of the new one."""
    old, new = reporter(), reporter()
    await old.alert(RULE, "submitted", snapshot("old"), "it was submitted")
    airflow.xcoms.clear()  # as Airflow does when the new try starts
    await new.alert(RULE, "submitted", snapshot("new"), "it was submitted")
    await old.alert(RULE, "stopped", snapshot("old"), "the task was cleared")
    for later in (reporter(), reporter()):  # a trigger that starts anew, and the kill of its task
        await later.alert(RULE, "submitted", snapshot("new"), "it was submitted")
        await later.alert(RULE, "stopped", snapshot("new"), "the task was marked failed")
    assert sent == [("d-t-old", "submitted"), ("d-t-new", "submitted"), ("d-t-old", "stopped"), ("d-t-new", "stopped")]


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
