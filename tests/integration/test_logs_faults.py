"""Logs on a control plane that is disturbed: the API server dies and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.control_plane.admin import Admin, Refused
from tests.control_plane.faults import bad_way
from tests.control_plane.plane import ControlPlane
from tests.integration.pods_that_print import Printers, of
from tests.unit.backends.kubernetes.logs.reading import Reading

REPLICAS = ("master-0", "worker-0")
NUMBERS = [str(number) for number in range(1, 401)]


def wait_until_it_answers(admin: Admin) -> None:
    for attempt in Retrying(
        retry=retry_if_exception_type((Refused, httpx.TransportError)), stop=stop_after_delay(90), wait=wait_fixed(0.2)
    ):
        with attempt:
            admin.request("GET", "/readyz")


def numbering(printers: Printers, replicas: tuple[str, ...], *, every: float, seconds: int) -> None:
    """Start pods on fake nodes that print the numbers."""
    wanted = {"logs": "\n".join(NUMBERS), "log-interval": str(every), "duration": str(seconds)}
    for replica in replicas:
        annotations = {f"fakepod.test/{key}": value for key, value in wanted.items()}
        spec = {"nodeSelector": {"type": "kwok"}, "containers": [{"name": "pytorch", "image": "any"}]}
        printers.make(replica, annotations, spec)


async def test_each_line_comes_once_though_the_api_server_dies_and_comes_back(
    own_control_plane: ControlPlane, own_admin: Admin
) -> None:
    printers = Printers(own_admin, "default", own_control_plane.kubeconfig)
    numbering(printers, REPLICAS, every=0.1, seconds=40)
    async with printers.cluster() as cluster:
        reading = Reading(printers.lines(cluster))
        await reading.until(20)
        own_control_plane.kill("kube-apiserver")
        await asyncio.to_thread(own_control_plane.start, "kube-apiserver")
        await asyncio.to_thread(wait_until_it_answers, own_admin)
        await printers.wait_for_all()
        lines = await reading.end()
    for replica in REPLICAS:
        assert of(lines, replica) == NUMBERS


async def test_lines_of_one_moment_come_once_though_connections_break(
    admin: Admin, namespace: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with bad_way(control_plane.kubeconfig, tmp_path) as way:
        printers = Printers(admin, namespace, way.kubeconfig)
        numbering(printers, REPLICAS, every=0, seconds=8)
        async with printers.cluster() as cluster:
            reading = Reading(printers.lines(cluster))
            for count in (1, 100, 2 * len(NUMBERS)):
                await reading.until(count)
                way.cut()
            await printers.wait_for_all()
            lines = await reading.end()
    for replica in REPLICAS:
        assert of(lines, replica) == NUMBERS
