"""A run on an API server of this process, and a reader of its logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from datetime import datetime
from typing import cast

import pytest

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from siflow_provider.backends.kubernetes.logs.follow import read_logs
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, Phase, ReplicaStatus, Status
from tests.unit.backends.kubernetes.cluster.conftest import connection
from tests.unit.backends.kubernetes.logs.log_server import PODS, LogServer, pod, serving
from tests.unit.backends.kubernetes.logs.reading import Reading

REF = JobRef(backend="kubernetes", kind="PyTorchJob", name="bert", namespace="ml", uid="job", task_uuid="1f0e")


class Run:
    """A run of a PyTorchJob, its end in the test's hands."""

    def __init__(self, server: LogServer, cluster: Cluster) -> None:
        self.server, self.cluster = server, cluster
        self._ended = asyncio.Event()
        self.replicas = ("master-0", "worker-0", "worker-1")
        self.running_at: datetime | None = None

    def start(self, *replicas: str) -> None:
        """Have running pods."""
        for replica in replicas:
            self.server.put(PODS, pod(replica))

    def end(self, *replicas: str) -> None:
        """Let the containers of these replicas end well, their logs too; with none, only the run ends."""
        for replica in replicas:
            self.server.log(f"bert-{replica}").end()
            self.server.put(PODS, pod(replica, {"terminated": {"exitCode": 0}}))
        self._ended.set()

    async def statuses(self) -> AsyncIterator[Status]:
        replicas = tuple(ReplicaStatus(name, name.partition("-")[0], Phase.RUNNING) for name in self.replicas)
        if not self._ended.is_set():
            yield Status(REF, Phase.RUNNING, replicas=replicas)
        await self._ended.wait()
        yield Status(REF, Phase.SUCCEEDED, replicas=replicas, running_at=self.running_at)

    def lines(
        self, selection: LogSelection = "all", cursor: LogCursor | None = None, *, follow: bool = True
    ) -> AsyncGenerator[LogLine, None]:
        """Read."""
        stream = read_logs(self.cluster, REF, selection, cursor or LogCursor(), follow=follow, statuses=self.statuses())
        return cast("AsyncGenerator[LogLine, None]", stream)

    def reading(self) -> Reading:
        """Begin to read."""
        return Reading(self.lines())

    async def read(
        self, selection: LogSelection = "all", cursor: LogCursor | None = None, *, follow: bool = True
    ) -> list[LogLine]:
        """Read to the end."""
        async with asyncio.timeout(30):
            return [line async for line in self.lines(selection, cursor, follow=follow)]


def texts(lines: Iterable[LogLine], replica: str = "master-0") -> list[str]:
    """Return the texts of one replica."""
    return [line.text for line in lines if line.replica == replica]


def numbers(first: int, last: int) -> list[str]:
    """Return the lines that say these numbers."""
    return [str(number) for number in range(first, last + 1)]


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    pace = Pace(tries=0.05, first_wait=0.01, streams=2)
    async with serving() as server, open_cluster(connection(server.url), pace=pace) as cluster:
        yield Run(server, cluster)
