"""A connection as Airflow keeps it: tried from its form, and used by processes that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.airflow_stack import wait_until
from siflow_provider.hooks.siflow import SiflowHook
from tests.platform.names import CLUSTER, KEY_ID, KEY_SECRET, POOL, REGION
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.tasks import creations, statuses

CATALOG = {
    "instances": {"cpu.demo-1": {"resources": {"cpu": 1, "memory": "1Gi"}}},
    "queues": [{"type": "on_demand", "instance": "cpu.demo-1", "queue": "on-demand", "resource_pool": POOL}],
}
WRONG = "sk-wrong-c4n4ry"


def connection(url: str, secret: str = KEY_SECRET) -> str:
    extra: dict[str, Any] = {"backend": "platform", "region": REGION, "cluster": CLUSTER, "catalog": CATALOG}
    return json.dumps({"conn_type": "siflow", "host": url, "login": KEY_ID, "password": secret, "extra": extra})


def test_a_connection_with_the_right_key_says_what_it_leads_to(
    running: RunningPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PLATFORM", connection(running.url))
    good, words = SiflowHook("platform").test_connection()
    assert good, words
    assert "platform" in words
    assert "the catalog is valid" in words


def test_a_connection_with_a_wrong_key_says_what_to_look_at_and_no_secret(
    running: RunningPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PLATFORM", connection(running.url, WRONG))
    good, words = SiflowHook("platform").test_connection()
    assert not good
    assert "HTTP 401" in words
    assert "Check access key id and secret in the connection" in words
    assert WRONG not in words


@pytest.mark.runs
def test_a_worker_killed_before_the_answer_to_its_creation_leaves_a_task_that_the_same_try_takes(
    running: RunningPlatform, tmp_path: Path
) -> None:
    running.change(run_seconds=600, faults=[{"method": "POST", "path": "/tasks$", "after": True, "hang_seconds": 600}])
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW_CONN_SIFLOW_DEFAULT": connection(running.url),
    }
    command = [sys.executable, "-m", "tests.unit.backends.platform.one_try"]
    with subprocess.Popen(command, env=environment) as first:
        wait_until(lambda: statuses(running), timeout=90, what="the platform has the task")
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=True)
    (uid,) = running.call(lambda: list(running.platform.engine.tasks))
    assert second.stdout.split()[-1] == uid
    assert "this try had submitted it before" in second.stdout + second.stderr
    assert (creations(running), statuses(running)) == (1, ["Running"])
