"""Alerts of real tasks on a real Airflow: one message per event and attempt, nothing secret, nothing delayed."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from textwrap import dedent

import pytest

from scripts.airflow_stack import AirflowStack
from scripts.airflow_stack.rest import wait_until
from scripts.airflow_stack.run import Run
from tests.e2e import somebody
from tests.e2e.training import runs_of
from tests.unit.hooks.receiver import Receiver, receiving

CANARY = "c4n4ry-of-the-alerts"
EVENTS = ["submitted", "started", "retrying", "succeeded", "failed", "stopped", "never_admissible", "hang"]
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
ENDS = """
from datetime import timedelta
tell = TrainingNotifier(connections="oncall")
told = {
    "on_failure_callback": tell, "on_retry_callback": tell, "retries": 1, "retry_delay": timedelta(seconds=1),
    "on_success_callback": [tell, TrainingNotifier(
        connections=["oncall"], title="{{ ti.task_id }} is done", message="run {{ run_id }}")],
}
train("good", "true", "oncall", alerts=[], **told)
train("bad", "sleep 4; echo why it failed; exit 3", "oncall", alerts=[], **told)
train("slow", "echo at work; sleep 600", "oncall", name_prefix="slow", execution_timeout=timedelta(seconds=12),
      alerts=[{"events": ["retrying", "failed", "stopped", "succeeded"], "to": ["oncall"]}], **told)
"""


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


def by_run(receiver: Receiver) -> dict[str, Counter[str]]:
    """Return the events of each run, by its name without the suffix."""
    found: dict[str, Counter[str]] = {}
    for message in receiver.messages:
        name, event = message["title"].split()[1], " ".join(message["title"].split()[2:])
        found.setdefault(name.removesuffix("-2").rpartition("-")[0], Counter())[event] += 1
    return found


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


def test_a_stop_is_one_message_whoever_stops_the_run(stack: AirflowStack, receiver: Receiver) -> None:
    run = start(
        stack,
        "alerts_stops",
        """
        for who in "killed", "stopped":
            for mode, deferrable in {"deferred": True, "sync": False}.items():
                train(f"{who}_{mode}", "echo at work; sleep 600", "oncall", deferrable=deferrable,
                      name_prefix=f"{who}-{mode}")
        """,
    )
    runs = [(who, mode) for who in ("killed", "stopped") for mode in ("deferred", "sync")]
    for who, mode in runs:
        run.ti(f"{who}_{mode}").wait_log("[master-0] at work")
    for mode in ("deferred", "sync"):
        run.ti(f"killed_{mode}").mark("failed")
        (status,) = runs_of(stack, f"stopped-{mode}")
        somebody.stop(stack, status.ref)
    run.wait(120)
    assert set(run.states().values()) == {"failed"}
    wait_until(lambda: len(receiver.messages) >= 3 * len(runs), timeout=60, what="all have come")
    assert by_run(receiver) == {f"{who}-{mode}": {"submitted": 1, "started": 1, "stopped": 1} for who, mode in runs}


def test_a_hang_is_one_message_an_attempt(stack: AirflowStack, receiver: Receiver) -> None:
    run = start(
        stack,
        "alerts_hangs",
        """
        for mode, deferrable in {"deferred": True, "sync": False}.items():
            train(mode, "sleep 600", "oncall", deferrable=deferrable, name_prefix=f"hangs-{mode}",
                  fault_tolerance={"max_retries": 1, "hang_timeout": "5s", "retry_on": ["hang"]})
        """,
    )
    assert run.wait(150) == "failed"
    again = {f"{event} (attempt 2)": 1 for event in ("submitted", "started", "hang", "failed")}
    each = {"submitted": 1, "started": 1, "hang": 1, "retrying": 1, **again}
    assert by_run(receiver) == {f"hangs-{mode}": each for mode in ("deferred", "sync")}


def test_a_long_wait_in_the_queue_is_one_message_with_its_reason(stack: AirflowStack, receiver: Receiver) -> None:
    held = somebody.start(stack, "sleep 600")
    run = start(
        stack,
        "alerts_queue",
        f"""
        for mode, deferrable in {{"deferred": True, "sync": False}}.items():
            train(f"waits_{{mode}}", "true", "oncall", deferrable=deferrable, name_prefix=f"q-{{mode}}",
                  compute={{"type": "on_demand", "instances": [{{"cpu": {os.cpu_count()}, "memory": "64Mi"}}]}},
                  alerts=[{{"events": ["started", {{"queued_too_long": "3s"}}], "to": ["oncall"]}}])
        """,
    )
    wait_until(lambda: len(receiver.messages) >= 2 or None, timeout=90, what="both messages")
    somebody.remove(stack, held)
    assert run.wait(120) == "success", run.states()
    assert by_run(receiver) == {f"q-{mode}": {"queued too long": 1, "started": 1} for mode in ("deferred", "sync")}
    late = [message["message"] for message in receiver.messages if "queued too long" in message["title"]]
    for text in late:  # a trigger that starts late tells it late
        assert re.match(r"q-\S+ has been in the queue for \d+s\nqueue: this machine, ", text), text


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


def test_a_notifier_tells_each_retry_and_the_end_of_a_task_from_airflows_callbacks(
    stack: AirflowStack, receiver: Receiver
) -> None:
    run = start(stack, "alerts_notifier", ENDS)
    assert run.wait(150) == "failed"
    assert run.states() == {"good": "success", "bad": "failed", "slow": "failed"}
    expected = Counter(
        {
            "good is done": 1,
            "SiFlow: alerts_notifier.good succeeded": 1,
            "SiFlow: alerts_notifier.bad retrying": 1,
            "SiFlow: alerts_notifier.bad failed": 1,
            "SiFlow: alerts_notifier.slow retrying": 1,
            "SiFlow: alerts_notifier.slow failed": 1,
            "SiFlow: slow failed": 2,  # the form's own alert, from the trigger: once for the run of each try
        }
    )
    wait_until(lambda: len(receiver.messages) >= expected.total() or None, timeout=60, what="all have come")
    texts = [(re.sub(r" slow-\S+", " slow", one["title"]), one["message"]) for one in receiver.messages]
    assert Counter(title for title, _ in texts) == expected
    by_title = dict(texts)
    assert by_title["good is done"].startswith("run ")
    for task_id, why in {"bad": "why it failed", "slow": "timeout: "}.items():
        for word, number in {"retrying": 1, "failed": 2}.items():
            text = by_title[f"SiFlow: alerts_notifier.{task_id} {word}"]
            assert f"try: {number}\n" in text
            assert why in text
    for number in (1, 2):
        log = run.ti("slow").log(number)
        assert "following " in log
        assert "[master-0] at work" in log
