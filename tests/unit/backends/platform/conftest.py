"""A fake platform whose tasks are simulated, and ways to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.platform.client import Client
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.settings import Settings
from tests.platform.client import connection
from tests.platform.platform import Platform
from tests.platform.server import RunningPlatform

QUICK = Pace(
    listing=0.1,
    longest_listing=0.2,
    pods=0.05,
    logs=0.05,
    longest_logs=0.1,
    settle=0.0,
    visible=1.5,
    first_pause=0.02,
    stopping=10.0,
    answer=1.0,
    tries=3,
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that starts the fake platform, so that none can forget it."""
    for item in items:
        if "running" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.platform)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningPlatform]:
    with RunningPlatform(Platform(tmp_path / "platform", commands=False)) as served:
        yield served


@pytest.fixture
def settings(running: RunningPlatform) -> Settings:
    return connection(running.url)


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[Client]:
    made = Client(settings, QUICK)
    yield made
    await made.close()


@pytest.fixture
async def backend(settings: Settings) -> AsyncIterator[PlatformBackend]:
    async with PlatformBackend(settings, QUICK) as opened:
        yield opened
