"""A RayJob of the fake platform: a real Ray head, its workers, and the command as the submitter."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
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
        if await _until(lambda: _alive(address, 1), stopping):
            for worker in self._workers:
                await worker.start(["ray", "start", f"--address={address}", *NODE], env, self._folder)
            await _until(lambda: _alive(address, 1 + len(self._workers)), stopping)
        if stopping.is_set():
            return []
        await self._submitter.start(["bash", "-c", command], {**env, "RAY_ADDRESS": address}, self._folder)
        return [self._submitter]

    def clean_up(self) -> None:
        """Remove the cluster's folder."""
        shutil.rmtree(self._temp, ignore_errors=True)


async def _until(ready: object, stopping: asyncio.Event) -> bool:
    while not stopping.is_set():
        if await ready():  # type: ignore[operator]
            return True
        await asyncio.sleep(0.2)
    return False


async def _alive(address: str, count: int) -> bool:
    """Ask the head how many nodes are there."""
    code = (
        "import sys; from ray._raylet import GcsClient; "
        f"sys.exit(sum(n.state == 0 for n in GcsClient(address='{address}').get_all_node_info().values()) < {count})"
    )
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait() == 0


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
