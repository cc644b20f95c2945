"""TrainingNotifier: what a callback's or a deadline's context becomes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, TaskInstanceState
from airflow.sdk.log import mask_secret

from siflow_provider.notifications import TrainingNotifier
from tests.unit.hooks.receiver import Receiver, receiving

CANARY = "c4n4ry-of-the-notifier"
# apprise itself imports this module of Python 3.11
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        value = {"conn_type": "apprise", "extra": {"config": {"path": found.url}}}
        monkeypatch.setenv("AIRFLOW_CONN_ONCALL", json.dumps(value))
        yield found


def context(state: str | None, *, max_tries: int = 2, **more: Any) -> Any:
    instance = SimpleNamespace(
        dag_id="d", task_id="train", run_id="r1", map_index=-1, try_number=2, max_tries=max_tries,
        state=None if state is None else TaskInstanceState(state),
    )  # fmt: skip
    return {"dag": DAG("d", schedule=None), "ti": instance, "run_id": "r1", **more}


def test_a_failure_callback_tells_task_run_and_reason(receiver: Receiver) -> None:
    mask_secret(CANARY)
    TrainingNotifier(connections="oncall")(context("failed", exception=ValueError(f"bad {CANARY}")))
    (message,) = receiver.messages
    assert message["title"] == "SiFlow: d.train failed"
    assert message["message"] == "DAG run: r1\ntry: 2\nbad ***"
    assert message["type"] == "failure"


@pytest.mark.parametrize(
    ("state", "more", "event", "colour"),
    [
        ("success", {}, "succeeded", "success"),
        ("up_for_retry", {"exception": ValueError("x")}, "retrying", "warning"),
        ("running", {"exception": ValueError("x")}, "failed", "failure"),
        ("running", {}, "started", "info"),
        ("skipped", {}, "skipped", "info"),
    ],
)
def test_the_event_follows_from_the_tasks_state(
    receiver: Receiver, state: str, more: dict[str, Any], event: str, colour: str
) -> None:
    TrainingNotifier(connections=["oncall"])(context(state, **more))
    (message,) = receiver.messages
    assert message["title"] == f"SiFlow: d.train {event}"
    assert message["type"] == colour


@pytest.mark.parametrize(
    ("max_tries", "more", "event"),
    [(2, {}, "retrying"), (1, {}, "failed"), (2, {"reason": "task_failure"}, "failed")],
    ids=["a try is left", "no try is left", "a DAG's callback"],
)
def test_the_event_of_a_lost_worker_follows_from_the_tries_that_are_left(
    receiver: Receiver, max_tries: int, more: dict[str, Any], event: str
) -> None:
    TrainingNotifier(connections=["oncall"])(context(None, max_tries=max_tries, **more))
    (message,) = receiver.messages
    assert message["title"] == f"SiFlow: d.train {event}"


@pytest.mark.parametrize("known", [{}, {"ti": None}], ids=["last task known", "nothing known"])
def test_a_dags_success_is_told_of_the_dag(receiver: Receiver, known: dict[str, Any]) -> None:
    run = {} if known else {"dag_run": SimpleNamespace(dag_id="d", run_id="r1")}
    TrainingNotifier(connections="oncall")(context(None, **{"reason": "success", **run, **known}))
    (message,) = receiver.messages
    assert (message["title"], message["message"]) == ("SiFlow: d succeeded", "DAG run: r1")
    assert message["type"] == "success"


def test_one_notifier_tells_of_each_task_what_is_its_own(receiver: Receiver) -> None:
    notifier = TrainingNotifier(connections="oncall", title="{{ ti.task_id }} ended")
    for task_id in ("prepare", "train"):  # as a DAG processor does for several lost workers
        given = context("failed")
        given["ti"].task_id = task_id
        notifier(given)
    assert [message["title"] for message in receiver.messages] == ["prepare ended", "train ended"]


def test_title_and_message_are_templates(receiver: Receiver) -> None:
    TrainingNotifier(connections="oncall", event="started", title="{{ ti.task_id }}!", message="in {{ run_id }}")(
        context("running")
    )
    (message,) = receiver.messages
    assert (message["title"], message["message"]) == ("train!", "in r1")


async def test_a_deadline_hands_its_context_over_and_is_told_in_the_triggerer(receiver: Receiver) -> None:
    late: Any = {"dag_run": {"dag_id": "d", "dag_run_id": "r9"}, "deadline": {"id": "x"}}
    await TrainingNotifier(connections="oncall", context=late)
    (message,) = receiver.messages
    assert message["title"] == "SiFlow: d queued too long"
    assert message["message"] == "DAG run: r9"


async def test_a_callback_works_where_an_event_loop_is_at_work(receiver: Receiver) -> None:
    TrainingNotifier(connections="oncall")(context("success"))
    await asyncio.sleep(0)
    assert len(receiver.messages) == 1


def test_a_bad_channel_never_raises(receiver: Receiver) -> None:
    TrainingNotifier(connections=["nobody", "oncall"])(context("success"))
    assert len(receiver.messages) == 1
