"""A fake platform beside a stack: a program of its own that runs commands, and a connection of the stack to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent, indent
from typing import Any

import httpx

from scripts.airflow_stack import AirflowStack, wait_until
from scripts.airflow_stack.settings import find_free_port
from tests.platform.client import LOGS
from tests.platform.names import CLUSTER, POOL, REGION, signed

KEY_ID, KEY_SECRET = "ak-of-this-test", "sk-c4n4ry-of-this-test"
"""None that the fake knows by itself: it is told, as for any client."""
STOP = ("POST", "/task-service/v1/tasks/stop")

HEAD = """
from datetime import timedelta

from airflow.sdk import DAG

from siflow_provider.operators import PyTorchJobOperator

COMPUTE = {{"type": "on_demand", "instances": ["cpu.demo-1"]}}
JOB = {{"image": "registry.example/train:1", "compute": COMPUTE, "conn_id": "siflow_platform", "logs": "all"}}

with DAG("{name}", schedule=None):
"""
CATALOG = {
    "instances": {"cpu.demo-1": {"resources": {"cpu": 1, "memory": "1Gi"}}},
    "queues": [{"type": "on_demand", "instance": "cpu.demo-1", "queue": "on-demand", "resource_pool": POOL}],
}


class FakePlatform:
    """The program, from outside.

    Attributes:
        url: where it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=30)

    def close(self) -> None:
        """Close the connections to it."""
        self._client.close()

    def change(self, **control: Any) -> None:
        """Change what `tests.platform.control.Control` names."""
        self._client.post("/control", json=control).raise_for_status()

    def tasks(self, prefix: str) -> list[dict[str, Any]]:
        """Return the tasks whose names begin so, oldest first, also those that a listing does not show yet."""
        self.change(visibility_seconds=0)
        query = {"pageSize": "500", "asc": "true", "name": prefix}
        answer = self._client.get("/sfapi/task-service/v1/tasks", params=query, headers=signed(KEY_ID, KEY_SECRET))
        return [row for row in answer.raise_for_status().json()["rows"] if row["name"].startswith(prefix)]

    def answers(self) -> bool:
        """Say whether it serves."""
        try:
            return self._client.get("/control/requests").is_success
        except httpx.TransportError:
            return False

    def creations(self) -> int:
        """Return how many creations have come in."""
        return self.requests("POST", "/task-service/v1/tasks")

    def requests(self, method: str, path: str) -> int:
        """Return how many requests of that kind have come in."""
        return sum(each == [method, path] for each in self._client.get("/control/requests").json())


@contextmanager
def serve(stack: AirflowStack) -> Iterator[FakePlatform]:
    """Run the program and make the connection `siflow_platform`."""
    port = find_free_port()
    environment = {**os.environ, "SIFLOW_ACCESS_KEY_ID": KEY_ID, "SIFLOW_ACCESS_KEY_SECRET": KEY_SECRET}
    options = ["--port", str(port), "--strict", "--commands", "--start-seconds", "0.5"]
    command = [sys.executable, "-m", "tests.platform", *options]
    process = subprocess.Popen(command, env=environment)
    fake = FakePlatform(f"http://127.0.0.1:{port}")
    try:
        wait_until(fake.answers, timeout=60, what="the fake platform answers")
        stack.airflow("connections", "add", "siflow_platform", "--conn-json", json.dumps(_connection(fake.url)))
        yield fake
    finally:
        fake.close()
        process.terminate()
        process.wait(60)


def _connection(url: str) -> dict[str, Any]:
    extra = {
        "backend": "platform",
        "region": REGION,
        "cluster": CLUSTER,
        "catalog": CATALOG,
        "api_overrides": {"logs": LOGS},
    }
    host = f"{url}/sfapi"
    return {"conn_type": "siflow", "host": host, "login": KEY_ID, "password": KEY_SECRET, "extra": extra}


def add_platform_dag(stack: AirflowStack, name: str, body: str) -> None:
    """Add a DAG whose body may use JOB: an image, an instance of the fake and the connection to it."""
    stack.add_dag(name, HEAD.format(name=name) + indent(dedent(body), "    "))
