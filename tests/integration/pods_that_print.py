"""Pods that carry the labels of a run of ours and print; a reader of their logs as a backend has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from siflow_provider.backends.kubernetes.logs.follow import read_logs
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef, LogCursor, LogLine, Phase, ReplicaStatus, Status
from tests.control_plane.admin import Admin, Object


class Printers:
    """A run of bare pods in a namespace; what they are to a training operator does not matter for their logs.

    Args:
        admin: makes the pods.
        namespace: where.
        kubeconfig: the way of the reader.
    """

    def __init__(self, admin: Admin, namespace: str, kubeconfig: Path) -> None:
        self._admin, self._namespace = admin, namespace
        self._settings = Settings(backend="kubernetes", kubernetes={"kube_config_path": str(kubeconfig)})
        self.ref = JobRef(
            backend="kubernetes", kind="PyTorchJob", name="print", namespace=namespace, uid="none", task_uuid=namespace
        )
        self._replicas: list[str] = []
        self.ended = asyncio.Event()

    def start(self, replica: str, command: str, **spec: Any) -> Object:
        """Start a pod on the real node that runs a bash command."""
        container = {
            "name": "pytorch", "image": "base:test", "imagePullPolicy": "Never", "command": ["bash", "-c", command],
            "resources": {"requests": {"cpu": "50m"}},
        }  # fmt: skip
        own = {"nodeSelector": {"type": "real"}, "containers": [container], "terminationGracePeriodSeconds": 1}
        return self.make(replica, {}, own | spec)

    def make(self, replica: str, annotations: dict[str, str], spec: dict[str, Any]) -> Object:
        """Make a pod of the run."""
        role, _, index = replica.rpartition("-")
        labels = {
            "app.kubernetes.io/managed-by": "siflow-provider",
            "siflow-provider/run": self.ref.task_uuid,
            "siflow-provider/attempt": "1",
            "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": index,
        }
        name = f"print-{replica}"
        metadata = {"name": name, "namespace": self._namespace, "labels": labels, "annotations": annotations}
        if replica not in self._replicas:
            self._replicas.append(replica)
        return self._admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"restartPolicy": "Never", **spec}}
        )

    def path(self, replica: str) -> str:
        """Return the pod's path."""
        return self._admin.path("Pod", f"print-{replica}", self._namespace)

    def wait(self, replica: str, *phases: str, seconds: float = 90) -> Object | None:
        """Wait until a pod is in one of these phases."""
        return self._admin.wait(
            self.path(replica), lambda pod: (pod or {}).get("status", {}).get("phase") in phases, seconds=seconds
        )

    async def wait_for_all(self, *, seconds: float = 120) -> None:
        """Wait until all pods have ended, and let the run end."""
        for replica in self._replicas:
            await asyncio.to_thread(self.wait, replica, "Succeeded", "Failed", seconds=seconds)
        self.ended.set()

    async def _statuses(self) -> AsyncIterator[Status]:
        replicas = tuple(ReplicaStatus(name, name.partition("-")[0], Phase.RUNNING) for name in self._replicas)
        yield Status(self.ref, Phase.RUNNING, replicas=replicas)
        await self.ended.wait()
        yield Status(self.ref, Phase.SUCCEEDED, replicas=replicas)

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        """Open the connection, as another process does."""
        async with open_cluster(self._settings) as cluster:
            yield cluster

    def lines(self, cluster: Cluster, cursor: LogCursor | None = None) -> AsyncGenerator[LogLine, None]:
        """Read the logs of all replicas."""
        stream = read_logs(cluster, self.ref, "all", cursor or LogCursor(), follow=True, statuses=self._statuses())
        return cast("AsyncGenerator[LogLine, None]", stream)

    async def read(self, cursor: LogCursor | None = None, *, seconds: float = 120) -> list[LogLine]:
        """Read to the end of the run."""
        async with asyncio.timeout(seconds), self.cluster() as cluster, aclosing(self.lines(cluster, cursor)) as lines:
            return [line async for line in lines]

    async def read_for(self, seconds: float, cursor: LogCursor) -> list[LogLine]:
        """Read for so long, or to the end of the run, and leave in the middle of whatever comes."""
        read: list[LogLine] = []
        try:
            async with (
                asyncio.timeout(seconds),
                self.cluster() as cluster,
                aclosing(self.lines(cluster, cursor)) as lines,
            ):
                async for line in lines:
                    read.append(line)
        except TimeoutError:
            return read
        return read


def of(lines: Sequence[LogLine], replica: str) -> list[str]:
    """Return one replica's lines, pieces put together."""
    out, unfinished = [], ""
    for line in lines:
        if line.replica == replica:
            unfinished += line.text
            if not line.partial:
                out.append(unfinished)
                unfinished = ""
    return [*out, f"{unfinished}…"] if unfinished else out


def after(cursor: LogCursor, lines: Sequence[LogLine]) -> LogCursor:
    """Return the cursor behind all lines, as text that another process reads."""
    for line in lines:
        cursor = cursor.after(line)
    return LogCursor.model_validate_json(cursor.model_dump_json())
