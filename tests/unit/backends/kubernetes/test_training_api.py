"""Which API of the training operator jobs are made for."""

from __future__ import annotations

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import UsageError


async def test_trainjobs_are_refused_instead_of_becoming_something_else() -> None:
    backend = KubernetesBackend(Settings(backend="kubernetes", training_api="trainjob"))
    with pytest.raises(UsageError, match="trainjob`: this version submits PyTorchJobs only"):
        async with backend:
            pass
