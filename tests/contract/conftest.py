"""Runs every test of this folder in each world, with its backend opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from siflow_provider.core.protocol import TrainingBackend
from tests.contract.world import World
from tests.contract.worlds.kubernetes import KubernetesWorld
from tests.contract.worlds.local import LocalWorld
from tests.contract.worlds.platform import PlatformWorld

_Fixture = Callable[[str], Any]
_MADE: dict[str, Callable[[_Fixture], World]] = {
    "local": lambda fixture: LocalWorld(fixture("tmp_path")),
    "platform": lambda fixture: PlatformWorld(fixture("tmp_path")),
    "kubernetes": lambda fixture: KubernetesWorld(fixture("control_plane").kubeconfig, fixture("queues")),
}
_MARKS = {"platform": pytest.mark.platform, "kubernetes": pytest.mark.cluster}
_WORLDS = [pytest.param(name, marks=_MARKS.get(name, ())) for name in _MADE]


@pytest.fixture(params=_WORLDS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = _MADE[request.param](request.getfixturevalue)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def backend(world: World) -> AsyncIterator[TrainingBackend]:
    async with world.backend() as opened:
        yield opened
