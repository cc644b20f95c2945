"""Alerts of real tasks on a real Airflow: one message per event and attempt, nothing secret, nothing delayed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from textwrap import dedent

import pytest

from scripts.airflow_stack import AirflowStack
from scripts.airflow_stack.rest import wait_until
from scripts.airflow_stack.run import Run
from tests.unit.hooks.receiver import Receiver, receiving

CANARY = "c4n4ry-of-the-alerts"
EVENTS = ["submitted", "started", "retrying", "succeeded", "failed", "stopped", "never_admissible"]
DAG = """
from airflow.sdk import DAG

from siflow_provider.notifications import TrainingNotifier
from siflow_provider.operators import PyTorchJobOperator

SMALL = {"type": "on_demand", "instances": [{"cpu": "100m", "memory": "64Mi"}]}

def train(task_id, command, channel, **more):
    return PyTorchJobOperator(**{
        "task_id": task_id, "image": "registry.example/x:1", "command": command, "compute": SMALL,
        "alerts": [{"events": EVENTS, "to": [channel]}], **more,
    })

with DAG("NAME", schedule=None):
""".replace("EVENTS", json.dumps(EVENTS))


def start(stack: AirflowStack, name: str, body: str) -> Run:
    head = DAG.replace("NAME", name)
    stack.add_dag(name, head + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines()))
    return stack.trigger(name)


def connect(stack: AirflowStack, conn_id: str, url: str) -> None:
    value = {"conn_type": "apprise", "extra": {"config": {"path": url}}}
    stack.airflow("connections", "add", conn_id, "--conn-json", json.dumps(value))


@pytest.fixture
def receiver(stack: AirflowStack) -> Iterator[Receiver]:
    with receiving() as found:
        connect(stack, "oncall", found.url)
        yield found
        stack.airflow("connections", "delete", "oncall")


def events_of(receiver: Receiver) -> Counter[str]:
    """Return how often each event came; a title reads `SiFlow: NAME EVENT (attempt N)`."""
    return Counter(" ".join(message["title"].split()[2:]) for message in receiver.messages)


def test_each_event_of_each_attempt_is_one_message_without_secrets(stack: AirflowStack, receiver: Receiver) -> None:
    run = start(
        stack,
        "alerts_each",
        f"""
        secret = {{"TOKEN": {{"value": "{CANARY[:6]}" "{CANARY[6:]}", "hidden": True}}}}
        train("good", "sleep 3; echo $TOKEN", "oncall", env=secret)
        train("sync", "sleep 1", "oncall", deferrable=False)
        train("bad", "sleep 3; echo leaks $TOKEN; exit 3", "oncall", env=secret,
              fault_tolerance={{"max_retries": 1, "retry_on": ["code"]}})
        train("never", "true", "oncall",
              compute={{"type": "on_demand", "instances": [{{"cpu": 100000, "memory": "64Mi"}}]}})
        """,
    )
    run.wait(240)
    assert run.states() == {"good": "success", "sync": "success", "bad": "failed", "never": "failed"}
    assert events_of(receiver) == {
        "submitted": 3,
        "started": 3,
        "succeeded": 2,
        "retrying": 1,
        "submitted (attempt 2)": 1,
        "started (attempt 2)": 1,
        "failed (attempt 2)": 1,
        "never admissible": 1,
    }
    text = json.dumps(receiver.messages)
    assert CANARY not in text
    assert "leaks ***" in text
    assert "exit code 3" in text
    assert CANARY not in stack.db_dump()


def test_dead_and_slow_channels_change_and_delay_nothing(stack: AirflowStack) -> None:
    with receiving(hold=True) as slow:
        connect(stack, "slow", slow.url)
        connect(stack, "dead", "json://127.0.0.1:9")
        began = time.monotonic()
        run = start(
            stack,
            "alerts_unheard",
            """
            for channel in ("slow", "dead", "missing"):
                train(f"deferred_{channel}", "sleep 1", channel)
                train(f"sync_{channel}", "sleep 1", channel, deferrable=False)
            """,
        )
        assert run.wait(180) == "success", run.states()
        assert time.monotonic() - began < 120
        log = run.ti("deferred_missing").log() + run.ti("sync_missing").log()
        assert "there is no connection 'missing' in the triggerer" in log
        assert "there is no connection 'missing' in the worker" in log


def test_a_notifier_tells_the_end_of_a_task_from_airflows_callbacks(stack: AirflowStack, receiver: Receiver) -> None:
    run = start(
        stack,
        "alerts_notifier",
        """
        tell = TrainingNotifier(connections="oncall")
        for task_id, command in {"good": "true", "bad": "echo why it failed; exit 3"}.items():
            PyTorchJobOperator(
                task_id=task_id, image="registry.example/x:1", command=command, compute=SMALL,
                on_failure_callback=tell, on_success_callback=TrainingNotifier(
                    connections=["oncall"], title="{{ ti.task_id }} is done", message="run {{ run_id }}"),
            )
        """,
    )
    run.wait(120)
    wait_until(lambda: len(receiver.messages) >= 2 or None, timeout=60, what="both messages")
    by_title = {message["title"]: message["message"] for message in receiver.messages}
    assert set(by_title) == {"good is done", "SiFlow: alerts_notifier.bad failed"}
    assert by_title["good is done"].startswith("run ")
    assert "why it failed" in by_title["SiFlow: alerts_notifier.bad failed"]
