"""A RayJob of the fake platform: a real Ray head, its workers, and the command as the submitter."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.platform.pods import Pod

RAY_OFF = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
NODE = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block"]


class RayPods:
    """The pods of one cluster; the first is the submitter, the second the head."""

    def __init__(self, pods: list[Pod], folder: Path) -> None:
        self._submitter, self._head, *self._workers = pods
        self._folder = folder
        self._temp = Path(tempfile.mkdtemp(prefix="fp"))  # short: sockets lie in it

    async def start(self, env: dict[str, str], command: str, stopping: asyncio.Event) -> list[Pod]:
        """Start the cluster and, when all nodes have joined, the command; return the pods whose end counts."""
        port, *others = _free_ports(6)
        env = {**env, **RAY_OFF}
        names = ("node-manager-port", "object-manager-port", "dashboard-agent-grpc-port", "metrics-export-port")
        ports = [f"--{name}={number}" for name, number in zip(names, others, strict=False)]
        head = ["ray", "start", "--head", f"--port={port}", f"--temp-dir={self._temp}", "--include-dashboard=false"]
        await self._head.start([*head, *ports, *NODE], env, self._folder)
        address = f"127.0.0.1:{port}"
        if await _until(lambda: _joined(self._head), stopping):  # a worker gives up on a head that is not ready
            for worker in self._workers:
                await worker.start(["ray", "start", f"--address={address}", *NODE], env, self._folder)
            await _until(lambda: all(map(_joined, self._workers)), stopping)
        if stopping.is_set():
            return []
        await self._submitter.start(["bash", "-c", command], {**env, "RAY_ADDRESS": address}, self._folder)
        return [self._submitter]

    def clean_up(self) -> None:
        """Remove the cluster's folder."""
        shutil.rmtree(self._temp, ignore_errors=True)


async def _until(ready: Callable[[], bool], stopping: asyncio.Event) -> bool:
    while not stopping.is_set():
        if await asyncio.to_thread(ready):
            return True
        await asyncio.sleep(0.2)
    return False


def _joined(pod: Pod) -> bool:
    return "Ray runtime started" in pod.log.read_text(errors="replace")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
