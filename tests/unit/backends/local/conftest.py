"""An opened backend on a state directory of its own, all of whose runs are ended afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.settings import Settings


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def backend(state_dir: Path) -> AsyncIterator[LocalBackend]:
    async with LocalBackend(Settings(state_dir=str(state_dir))) as opened:
        try:
            yield opened
        finally:
            for status in await opened.runs():
                await opened.delete(status.ref)
