"""What most of these tests start from."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from tests.control_plane.plane import ControlPlane
from tests.integration.kubernetes_tasks import opened


@pytest.fixture
async def backend(control_plane: ControlPlane, namespace: str) -> AsyncIterator[KubernetesBackend]:
    """Return a backend on the test's own namespace of the shared control plane."""
    async with opened(control_plane.kubeconfig, namespace) as made:
        yield made
