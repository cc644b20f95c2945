"""A fake API server and a connection to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.settings import Settings
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.cluster.certificates import Authority
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, serving


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with serving() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    """How long the client wanted to wait; it does not."""
    return []


@pytest.fixture
def pace(waits: list[float]) -> Pace:
    async def no_wait(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    return Pace(sleep=no_wait)


def kubeconfig(url: str, **user: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }


def connection(url: str, **user: Any) -> Settings:
    """Settings that lead to a server."""
    return Settings(backend="kubernetes", kubernetes={"kube_config": Hidden(json.dumps(kubeconfig(url, **user)))})


@pytest.fixture
def settings(server: FakeServer) -> Settings:
    return connection(server.url)


@pytest.fixture(scope="session")
def signer() -> Authority:
    return Authority()


@pytest.fixture
def authority(signer: Authority) -> str:
    """The certificate of an authority, in PEM."""
    return signer.pem
