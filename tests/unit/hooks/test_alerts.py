"""Each event reaches its channel once, with evidence and without secrets; a bad channel costs one warning."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from siflow_provider.core.outcome import AlertRule
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, QueuePlace, Status
from siflow_provider.hooks import alerts
from siflow_provider.hooks.alerts import alert_text, deliver, send_alert
from siflow_provider.spec.policy import ALERT_EVENTS
from tests.unit.hooks.receiver import Receiver, receiving

# apprise itself imports this module of Python 3.11
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
CANARY = "hidden-c4n4ry-of-alerts"
REF = JobRef(backend="local", kind="PyTorchJob", name="bert-3f9c1a7", uid="u", task_uuid="t")
FAILED = Status(
    ref=REF.model_copy(update={"name": "bert-3f9c1a7-2", "attempt": 2}),
    phase=Phase.FAILED,
    failure=Failure(
        category=FailureClass.CODE,
        summary="worker-1 exited with 3",
        hint="Look at the last lines.",
        replica="worker-1",
        rank=2,
        exit_code=3,
        last_lines=("Traceback", "ValueError: no"),
        events=("pod deleted",),
    ),
)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        connect(monkeypatch, "oncall", {"path": found.url, "tag": "alerts"})
        yield found


def connect(monkeypatch: pytest.MonkeyPatch, name: str, config: object) -> None:
    value = {"conn_type": "apprise", "extra": {"config": config}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(value))


def rule(*connections: str, message: str | None = None) -> AlertRule:
    return AlertRule(events={"failed": 0.0}, connections=connections, message=message)


@pytest.mark.parametrize("event", [*ALERT_EVENTS, "queued_too_long"])
async def test_each_event_is_one_message(receiver: Receiver, event: str) -> None:
    await send_alert(rule("oncall"), event, Status(ref=REF, phase=Phase.RUNNING), f"{REF.name}: {event}")
    (message,) = receiver.messages
    assert message["title"] == f"SiFlow: bert-3f9c1a7 {event.replace('_', ' ')}"
    assert message["message"] == f"bert-3f9c1a7: {event}"
    good, bad = {"succeeded"}, {"failed", "hang", "never_admissible"}
    colour = "success" if event in good else "failure" if event in bad else None
    assert message["type"] == colour or (colour is None and message["type"] in {"info", "warning"})


async def test_a_failure_brings_its_evidence(receiver: Receiver) -> None:
    await send_alert(rule("oncall", message="Please look."), "failed", FAILED, "it failed: code")
    (message,) = receiver.messages
    assert message["title"] == "SiFlow: bert-3f9c1a7-2 failed (attempt 2)"
    assert message["message"].splitlines() == [
        "Please look.",
        "it failed: code",
        "replica worker-1, rank 2, exit code 3",
        "event: pod deleted",
        "last lines of worker-1:",
        "  Traceback",
        "  ValueError: no",
        "Look at the last lines.",
    ]


@pytest.mark.parametrize("event", ["submitted", "started"])
def test_a_start_that_is_told_late_does_not_bring_the_failure_along(event: str) -> None:
    assert alert_text(event, status=FAILED, text="it runs")[1] == "it runs"


def test_a_queued_task_says_where_it_stands() -> None:
    status = Status(ref=REF, phase=Phase.QUEUED, queue=QueuePlace("od-h100", position=3, reason="8 GPUs short"))
    _, body = alert_text("queued_too_long", status=status, text="queued for 30m")
    assert body == "queued for 30m\nqueue: od-h100, position 3: 8 GPUs short"


async def test_all_connections_and_channels_of_a_rule_are_told(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "two", json.dumps([{"path": receiver.url}, {"path": receiver.url, "tag": ["x", "y"]}]))
    await send_alert(rule("oncall", "two"), "failed", FAILED, "text")
    assert len(receiver.messages) == 3


async def test_what_airflow_masks_is_masked_in_the_message(receiver: Receiver) -> None:
    from airflow.sdk.log import mask_secret

    mask_secret(CANARY)
    await deliver("oncall", title=f"t {CANARY}", body=f"b {CANARY}", event="failed")
    assert CANARY not in json.dumps(receiver.messages)
    assert receiver.messages[0]["message"] == "b ***"


async def test_a_dead_channel_is_one_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:  # bound and not listening: refuses connections
        taken.bind(("127.0.0.1", 0))
        connect(monkeypatch, "dead", {"path": f"json://127.0.0.1:{taken.getsockname()[1]}"})
        await deliver("dead", title="t", body="b", event="failed")
    assert "did not take it" in expect_one_warning(caplog)


async def test_a_channel_that_refuses_is_one_warning(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answer = 500
    await deliver("oncall", title="t", body="b", event="failed")
    assert "did not take it" in expect_one_warning(caplog)


async def test_a_slow_channel_is_left_behind(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(alerts, "ALERT_SECONDS", 1.0)
    with receiving(hold=True) as slow:
        connect(monkeypatch, "slow", {"path": slow.url})
        await asyncio.to_thread(__import__, "apprise")
        start = time.monotonic()
        await deliver("slow", title="t", body="b", event="failed")
        assert time.monotonic() - start < 3
        assert "no answer from 'slow' within 1 s" in expect_one_warning(caplog)


@pytest.mark.parametrize(
    ("config", "words"),
    [(None, "has no channel"), ([], "has no channel"), ("{", "has no channel"), ({"tag": "x"}, "has no channel")],
)
async def test_a_connection_without_channel_says_what_it_must_hold(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, config: object, words: str
) -> None:
    connect(monkeypatch, "empty", config)
    await deliver("empty", title="t", body="b", event="failed")
    assert words in expect_one_warning(caplog)


async def test_a_missing_connection_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    await deliver("nobody", title="t", body="b", event="failed")
    assert "no connection 'nobody'" in expect_one_warning(caplog)


async def test_without_apprise_the_warning_says_what_to_install(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    await deliver("oncall", title="t", body="b", event="failed")
    assert "airflow-provider-siflow[alerts]" in expect_one_warning(caplog)


async def test_a_channels_token_is_masked_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    from siflow_provider.hooks.process import redacted

    token = "T0K3N-in-path-0123456789"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        connect(
            monkeypatch,
            "tok",
            {"path": f"json://u:l0gin-of-the-channel@127.0.0.1:{taken.getsockname()[1]}/{token}?x=q{token[::-1]}"},
        )
        await deliver("tok", title="t", body="b", event="failed")
    assert redacted(f"POST {token} l0gin-of-the-channel q{token[::-1]}") == "POST *** *** ***"


def expect_one_warning(caplog: pytest.LogCaptureFixture) -> str:
    ours = [each for each in caplog.records if each.name == alerts.__name__]
    assert [each.levelno for each in ours] == [logging.WARNING]
    return ours[0].getMessage()


async def test_a_message_that_is_left_behind_on_its_way_goes_out_while_the_process_lives(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import apprise

    notify = apprise.Apprise.notify
    under_way, free, gone = threading.Event(), threading.Event(), threading.Event()

    def slow(*given: Any, **more: Any) -> Any:
        under_way.set()
        free.wait(60)
        answer = notify(*given, **more)
        gone.set()
        return answer

    monkeypatch.setattr(apprise.Apprise, "notify", slow)
    sending = asyncio.ensure_future(send_alert(rule("oncall"), "failed", FAILED, "it failed"))
    await asyncio.to_thread(under_way.wait, 60)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert receiver.messages == []
    free.set()
    await asyncio.to_thread(gone.wait, 60)
    assert len(receiver.messages) == 1
