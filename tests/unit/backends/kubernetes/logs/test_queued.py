"""What reading the logs of a run that waits in a queue asks of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from siflow_provider.backends.kubernetes.logs.follow import read_logs
from siflow_provider.core.status import LogCursor, Phase, QueuePlace, Status
from siflow_provider.errors import UsageError
from tests.unit.backends.kubernetes.logs.conftest import REF, Run, texts
from tests.unit.backends.kubernetes.logs.log_server import PODS

QUEUED = Status(REF, Phase.QUEUED, queue=QueuePlace("gpu"))


async def test_pods_are_looked_for_once_the_queue_lets_the_run_go(run: Run) -> None:
    run.server.log("bert-master-0").write("hello")
    asked_early: list[bool] = []

    async def statuses() -> AsyncIterator[Status]:
        yield QUEUED
        yield replace(QUEUED, queue=QueuePlace("gpu", 1))
        asked_early.append(PODS in run.server.paths)
        run.start("master-0")
        run.end("master-0")
        async for status in run.statuses():
            yield status

    stream = read_logs(run.cluster, REF, "all", LogCursor(), follow=True, statuses=statuses())
    async with asyncio.timeout(30):
        assert texts([line async for line in stream]) == ["hello"]
    assert asked_early == [False]


async def test_the_pods_of_a_run_that_was_put_back_into_its_queue_are_read(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write("before")
    left = asyncio.Event()

    async def statuses() -> AsyncIterator[Status]:
        yield replace(QUEUED, queue=QueuePlace("gpu", requeues=1))
        await left.wait()
        run.end("master-0")
        async for status in run.statuses():
            yield status

    lines = []
    async with asyncio.timeout(30):
        async for line in read_logs(run.cluster, REF, "all", LogCursor(), follow=True, statuses=statuses()):
            lines.append(line)
            left.set()
    assert texts(lines) == ["before"]


async def test_a_wrong_name_is_told_while_the_run_waits(run: Run) -> None:
    async def statuses() -> AsyncIterator[Status]:
        async for status in run.statuses():
            yield replace(status, phase=Phase.QUEUED, queue=QUEUED.queue)

    with pytest.raises(UsageError, match="has no replica 'worker-9'"):
        async for _ in read_logs(run.cluster, REF, ("worker-9",), LogCursor(), follow=True, statuses=statuses()):
            pass
