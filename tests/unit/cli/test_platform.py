"""The commands on the platform backend, against the fake platform with real commands in its pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from siflow_provider.spec.catalog import load_catalog
from tests.platform.client import LOGS
from tests.platform.names import CLUSTER, KEY_ID, KEY_SECRET, POOL, REGION
from tests.platform.platform import Platform
from tests.platform.server import RunningPlatform
from tests.unit.cli.conftest import Command

pytestmark = pytest.mark.platform
FORM = """
kind: PyTorchJob
name_prefix: cmd
image: registry.example/ai/pytorch:2.9
command: {command}
env: {{TOKEN: {{value: hidden-value-1, hidden: true}}}}
compute: {{type: on_demand, instances: [cpu.demo-1]}}
"""
CATALOG = {
    "instances": {"cpu.demo-1": {"resources": {"cpu": 1, "memory": "1Gi"}}},
    "queues": [{"type": "on_demand", "instance": "cpu.demo-1", "queue": "on-demand", "resource_pool": POOL}],
}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningPlatform]:
    with RunningPlatform(Platform(tmp_path / "platform")) as served:
        yield served


@pytest.fixture
def conn(running: RunningPlatform) -> str:
    extra = {"backend": "platform", "region": REGION, "cluster": CLUSTER, "catalog": CATALOG}
    extra["api_overrides"] = {"logs": LOGS}
    fields = {"conn_type": "siflow", "host": running.url, "login": KEY_ID, "password": KEY_SECRET, "extra": extra}
    return json.dumps(fields)


def write(command: Command, text: str) -> str:
    (command.folder / "task.yaml").write_text(FORM.format(command=json.dumps(text)), encoding="utf-8")
    return "task.yaml"


def test_a_run_is_followed_listed_shown_and_read_again(command: Command, conn: str) -> None:
    done = command("run", write(command, "echo hello from $RANK; sleep 1"), "--conn", conn, timeout=120)
    assert done.code == 0, done.out + done.err
    assert "hello from 0" in done.out
    (listed,) = command("ps", "--all", "--json", "--conn", conn).data
    assert listed["name"].startswith("cmd-")
    shown = command("show", listed["name"], "--json", "--conn", conn)
    assert shown.code == 0, shown.err
    assert shown.data["phase"] == "succeeded"
    assert [(each["name"], each["exit_code"]) for each in shown.data["replicas"]] == [("master-0", 0)]
    assert "hello from 0" in command("logs", listed["name"], "--conn", conn).out


def test_a_failing_run_gives_its_exit_code_and_a_stopped_one_ends(
    command: Command, conn: str, running: RunningPlatform
) -> None:
    done = command("run", write(command, "echo wrong input; exit 3"), "--conn", conn, timeout=120)
    assert done.code == 1
    assert "exit code 3" in done.out + done.err
    (ended,) = command("ps", "--all", "--json", "--conn", conn).data
    told = command("show", ended["name"], "--conn", conn).out
    assert "master-0 (rank 0) ended with exit code 3" in told
    assert "wrong input" in told
    process = command.start_ready(write(command, "echo ready; sleep 600"), "--conn", conn)
    (live,) = command("ps", "--json", "--conn", conn).data
    assert command("stop", live["name"], "--conn", conn).code == 0
    process.communicate(timeout=120)
    assert process.returncode == 3
    statuses = running.call(lambda: [task.status for task in running.platform.engine.tasks.values()])
    assert statuses == ["Failed", "Stopped"]


def test_quota_doctor_and_discover_answer(command: Command, conn: str) -> None:
    form = write(command, "true")
    assert command("quota", form, "--json", "--conn", conn).data["fits_now"] is True
    done = command("doctor", "--json", "--conn", conn)
    assert done.code == 0, done.out + done.err
    names = {finding["name"] for finding in done.data}
    assert {"backend platform", "signature and access to tasks", "clock", "pools", "logs"} <= names
    draft = command("catalog", "discover", "--conn", conn)
    assert draft.code == 0, draft.err
    catalog = load_catalog(yaml.safe_load(draft.out))
    assert "cpu.demo-1" in catalog.instances
    assert {*catalog.volumes, *catalog.datasets, *catalog.models} >= {"team-data", "corpus", "bert-base"}


def test_render_shows_the_body_and_hidden_values_only_when_asked(command: Command) -> None:
    form = write(command, "true")
    (command.folder / "catalog.yaml").write_text(json.dumps(CATALOG), encoding="utf-8")
    shown = command("render", form, "--backend", "platform", "--catalog", "catalog.yaml")
    assert shown.code == 0, shown.err
    body = yaml.safe_load(shown.out)
    assert body["resourcePool"] == POOL
    assert "hidden-value-1" not in shown.out + shown.err
    revealed = command("render", form, "--backend", "platform", "--catalog", "catalog.yaml", "--reveal")
    assert "hidden-value-1" in revealed.out


def test_no_command_tells_the_secret_of_a_connection(command: Command, conn: str, running: RunningPlatform) -> None:
    running.change(faults=[{"status": 400, "envelope_false": f"signed with {KEY_SECRET}", "times": 9}])
    for words in (["ps"], ["doctor"], ["catalog", "discover"]):
        done = command(*words, "--conn", conn)
        assert done.code != 0
        assert KEY_SECRET not in done.out + done.err
