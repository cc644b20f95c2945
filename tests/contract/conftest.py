"""Runs every test of this folder in each world, with its backend opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from siflow_provider.core.protocol import TrainingBackend
from tests.contract.world import World
from tests.contract.worlds.local import LocalWorld
from tests.contract.worlds.platform import PlatformWorld

_WORLDS = [
    pytest.param(LocalWorld, id="local"),
    pytest.param(PlatformWorld, id="platform", marks=pytest.mark.platform),
]


@pytest.fixture(params=_WORLDS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made: World = request.param(tmp_path)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def backend(world: World) -> AsyncIterator[TrainingBackend]:
    async with world.backend() as opened:
        yield opened
