"""The logs of real containers, from a real kubelet: every line once and in order, whatever breaks on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from siflow_provider.backends.kubernetes.logs.splitter import MISSING
from siflow_provider.backends.kubernetes.logs.stacks import dump_stacks
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.status import LogCursor, LogLine
from tests.control_plane.admin import Admin
from tests.control_plane.faults import bad_way
from tests.control_plane.plane import ControlPlane
from tests.integration.pods_that_print import Printers, after, of
from tests.unit.backends.kubernetes.logs.reading import Reading

REPLICAS = ("master-0", "worker-0", "worker-1", "worker-2")
COUNT = 1500
NUMBERS = [str(number) for number in range(1, COUNT + 1)]
NUMBER_LINES = f"for n in $(seq {COUNT}); do echo $n; sleep 0.005; done"


@pytest.fixture
def printers(admin: Admin, namespace: str, control_plane: ControlPlane) -> Printers:
    return Printers(admin, namespace, control_plane.kubeconfig)


async def test_numbers_of_four_replicas_come_once_though_the_reader_starts_anew_every_two_seconds(
    printers: Printers,
) -> None:
    for replica in REPLICAS:
        printers.start(replica, NUMBER_LINES)
    ending = asyncio.create_task(printers.wait_for_all())
    lines: list[LogLine] = []
    cursor = LogCursor()
    while not ending.done():
        lines += await printers.read_for(2.0, cursor)
        cursor = after(cursor, lines)
    await ending
    lines += await printers.read(cursor)
    for replica in REPLICAS:
        assert of(lines, replica) == NUMBERS


async def test_numbers_come_once_though_every_connection_breaks_each_second(
    admin: Admin, namespace: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with bad_way(control_plane.kubeconfig, tmp_path) as way:
        printers = Printers(admin, namespace, way.kubeconfig)
        for replica in REPLICAS:
            printers.start(replica, NUMBER_LINES)
        reading = asyncio.create_task(printers.read())
        ending = asyncio.create_task(printers.wait_for_all())
        while not ending.done():
            await asyncio.wait({ending}, timeout=1.0)
            way.cut()
        await ending
        lines = await reading
    for replica in REPLICAS:
        # on a busy machine no request may come through for so long that this is told between two lines
        assert [
            text
            for text in of(lines, replica)
            if not text.startswith(f"--- {replica}: its log can't be read at the moment")
        ] == NUMBERS


async def test_lines_of_the_last_second_are_all_there_though_the_pod_is_deleted_at_once(
    admin: Admin, printers: Printers
) -> None:
    printers.start("master-0", "sleep 1; seq 20000; exit 1")
    reading = asyncio.create_task(printers.read())
    await asyncio.to_thread(printers.wait, "master-0", "Failed")
    admin.delete(printers.path("master-0"), gracePeriodSeconds="0")
    printers.ended.set()
    assert of(await reading, "master-0") == [str(number) for number in range(1, 20001)]


async def test_lines_on_both_sides_of_a_rotation_are_there(admin: Admin, printers: Printers) -> None:
    # the kubelet rotates a log of 10 MiB, and looks every ten seconds; it shows the newest file only
    printers.start(
        "master-0",
        "seq -f '%0100.0f' 120000; n=120000; until [ -e /tmp/enough ]; do n=$((n + 1)); echo $n; sleep 0.1; done",
    )
    async with printers.cluster() as cluster:
        reading = Reading(printers.lines(cluster))
        await reading.until(120_000)
        await asyncio.to_thread(
            admin.wait,
            f"{printers.path('master-0')}/log?limitBytes=101",
            lambda first: not str(first).endswith("0001\n"),
        )
        await reading.until(len(reading.lines) + 20)
        enough = await cluster.api.execute(
            printers.ref.namespace, "print-master-0", "pytorch", ["touch", "/tmp/enough"]
        )
        assert enough == (0, "", "")
        await printers.wait_for_all()
        # a kubelet that was behind stays with the old file; the reader notices, and tells where it had to begin anew
        numbers = [int(text) for text in of(await reading.end(), "master-0") if text != MISSING]
    assert len(numbers) > 120_020
    assert numbers == list(range(1, len(numbers) + 1))


async def test_stacks_of_each_python_process_are_there(printers: Printers) -> None:
    program = "import time\ndef stuck():\n    print('begun', flush=True)\n    time.sleep(600)\nstuck()"
    printers.start("master-0", f'exec python3 -c "{program}"')
    printers.start("worker-0", "echo begun; sleep 600")
    async with printers.cluster() as cluster:
        reading = Reading(printers.lines(cluster))
        await reading.until(2)
        stacks = await dump_stacks(cluster, printers.ref)
        printers.ended.set()
        await reading.end()
    assert "stuck (" in stacks["master-0"]
    assert stacks["worker-0"] == "no stack dump: no Python process runs in this replica."


async def test_long_lines_broken_bytes_and_a_missing_end_come_whole(printers: Printers) -> None:
    command = r"""head -c 5000000 /dev/zero | tr '\0' x; echo; printf 'bad \xff byte\n'
        for n in $(seq 20000); do printf 'ä'; done; echo
        printf 'é' | head -c 1; sleep 0.2; printf 'é' | tail -c 1; printf end"""
    printers.start("master-0", command)
    reading = asyncio.create_task(printers.read())
    await printers.wait_for_all()
    lines = await reading
    assert max(len(line.text.encode()) for line in lines) <= MAX_LINE_BYTES
    assert of(lines, "master-0") == ["x" * 5_000_000, "bad \ufffd byte", "ä" * 20_000, "éend"]


async def test_an_init_container_that_fails_is_read(printers: Printers) -> None:
    fetch = {
        "name": "fetch", "image": "base:test", "imagePullPolicy": "Never",
        "command": ["bash", "-c", "echo no such bucket; exit 3"],
    }  # fmt: skip
    printers.start("master-0", "echo never", initContainers=[fetch])
    reading = asyncio.create_task(printers.read())
    await printers.wait_for_all()
    assert of(await reading, "master-0") == ["[init fetch] no such bucket"]


async def test_a_pod_that_is_created_again_is_marked_and_read_from_its_beginning(
    admin: Admin, printers: Printers
) -> None:
    printers.start("master-0", "echo first; sleep 600")
    lines = await printers.read_for(5.0, LogCursor())
    assert of(lines, "master-0") == ["first"]
    admin.delete(printers.path("master-0"))
    await asyncio.to_thread(admin.wait, printers.path("master-0"), lambda pod: pod is None)
    created = printers.start("master-0", "echo second")["metadata"]["creationTimestamp"]
    await printers.wait_for_all()
    assert of(await printers.read(after(LogCursor(), lines)), "master-0") == [
        f"--- master-0: begins anew in a pod that was created at {created}; "
        "last lines of the pod before may be missing ---",
        "second",
    ]
