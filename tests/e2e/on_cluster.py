"""What the end-to-end tests on a cluster share: a connection of the test's own, and what the API server has of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

from scripts.airflow_stack import wait_until
from tests.control_plane.queues import GPU

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import Run
    from tests.control_plane.admin import Object
    from tests.control_plane.queues import Queues

__all__ = ["OnCluster"]

HEAD = """
from datetime import timedelta

from airflow.sdk import DAG, task

from siflow_provider.operators import PyTorchJobOperator, RayJobOperator

def compute(**amounts):
    return {{"type": "on_demand", "instances": [amounts]}}

def fake(duration=None, **more):
    marks = {{f"fakepod.test/{{name.replace('_', '-')}}": value for name, value in more.items()}}
    marks |= {{}} if duration is None else {{"fakepod.test/duration": str(duration)}}
    return {{"annotations": marks}}

ON = {{"conn_id": "{conn_id}"}}
REAL = {{**ON, "image": "base:test", "compute": compute(cpu="100m", memory="64Mi")}}
FAKE = {{**ON, "image": "registry.example/train:1", "command": "train", "compute": compute(cpu=1, memory="1Gi", gpu=1)}}

# of Ray's autoscaler, which else asks for a quarter of a small node
LITTLE = {{"limits": {{"cpu": "500m", "memory": "512Mi"}}, "requests": {{"cpu": "100m", "memory": "512Mi"}}}}
SMALL_AUTOSCALER = {{"spec": {{"rayClusterSpec": {{"autoscalerOptions": {{"resources": LITTLE}}}}}}}}

with DAG("{name}", schedule=None{dag_args}):
"""
_VERSIONS = {"PyTorchJob": "kubeflow.org/v1", "RayJob": "ray.io/v1", "Workload": ""}


@dataclass
class OnCluster:
    """A namespace and queues of the test's own, and a connection of Airflow to them.

    Attributes:
        stack: The Airflow.
        queues: Makes queues in the namespace.
        kubeconfig: Of the control plane.
    """

    stack: AirflowStack
    queues: Queues
    kubeconfig: Path

    @property
    def conn_id(self) -> str:
        """The connection; one a test, so that what an earlier test left behind is stopped where it runs."""
        return f"siflow_{self.queues.namespace}"

    def connect(self, queue: str | None, **extra: Any) -> None:
        """Make the connection; tasks go to that LocalQueue, without one to where the catalog says or to none."""
        content = {
            "backend": "kubernetes",
            "kube_config_path": str(self.kubeconfig),
            "namespace": self.queues.namespace,
            **({} if queue is None else {"default_queue": queue}),
            **extra,
        }
        body = {"connection_id": self.conn_id, "conn_type": "siflow", "extra": json.dumps(content)}
        self.stack.rest.request("POST", "connections", json=body)

    def on_real_node(self) -> None:
        """Connect to a queue with plenty of room on the real node."""
        self.connect(self.queues.queue("real"))

    def on_fake_nodes(self, gpus: int) -> None:
        """Connect to a queue with that many GPUs on the fake nodes."""
        self.connect(self.queues.queue("kwok", {GPU: gpus}))

    def start(self, name: str, body: str, *, dag_args: str = "") -> Run:
        """Add a DAG whose body may use `task`, REAL, FAKE, ON, SMALL_AUTOSCALER, compute() and fake(), and start it."""
        self.stack.add_dag(
            name, HEAD.format(name=name, conn_id=self.conn_id, dag_args=dag_args) + indent(dedent(body), "    ")
        )
        return self.stack.trigger(name)

    def objects(self, kind: str = "PyTorchJob") -> list[Object]:
        """Return all objects of that kind in the namespace."""
        version = _VERSIONS.get(kind, "v1")
        admin = self.queues.admin
        return admin.items(admin.path(kind, namespace=self.queues.namespace, version=version))

    def names(self, kind: str = "PyTorchJob") -> list[str]:
        """Return the names of all objects of that kind in the namespace."""
        return sorted(found["metadata"]["name"] for found in self.objects(kind))

    def wait_gone(self, *, timeout: float = 60) -> None:
        """Wait until the namespace has no job and no pod any more."""

        def left() -> list[str]:
            return [f"{kind} {name}" for kind in (*_VERSIONS, "Pod") for name in self.names(kind)]

        wait_until(lambda: not left(), timeout=timeout, what="jobs and pods are gone", describe=lambda: str(left()))
