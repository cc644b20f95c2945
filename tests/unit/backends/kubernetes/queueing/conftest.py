"""A server that answers reads, and a connection to it that never waits between two tries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from tests.unit.backends.kubernetes.cluster.conftest import connection
from tests.unit.backends.kubernetes.queueing.answering import Answering, answering


@pytest.fixture
async def server() -> AsyncIterator[Answering]:
    async with answering() as running:
        yield running


@pytest.fixture
async def cluster(server: Answering) -> AsyncIterator[Cluster]:
    async def no_wait(_seconds: float) -> None:
        await asyncio.sleep(0)

    async with open_cluster(connection(server.url), pace=Pace(sleep=no_wait)) as opened:
        yield opened
