"""Every trigger of these tests finds a connection to a machine of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.triggers import killed
from tests.unit.triggers.airflow import Airflow
from tests.unit.triggers.many import Machine


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Airflow:
    fake = Airflow()
    extra = f'{{"backend": "local", "state_dir": "{tmp_path / "runs"}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_SIFLOW_DEFAULT", f'{{"conn_type": "siflow", "extra": {extra}}}')
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    monkeypatch.setattr("siflow_provider.triggers.store.Store._put", lambda *where: fake.xcoms.update(where[-1]))
    monkeypatch.setattr("siflow_provider.triggers.store.Store._get", lambda *where: fake.xcoms.get(where[-1]))
    monkeypatch.setattr(killed, "_state", lambda _: fake.state)
    return fake


@pytest.fixture
async def backend(tmp_path: Path, airflow: Airflow) -> AsyncIterator[Any]:
    async with make_backend(Settings(backend="local", state_dir=str(tmp_path / "runs"))) as opened:
        yield opened
        for status in await opened.runs():
            await opened.delete(status.ref)


@pytest.fixture
def machine(airflow: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    # no template: where a log lies can't be told, and nobody writes one here
    monkeypatch.setenv("AIRFLOW__LOGGING__LOG_FILENAME_TEMPLATE", "somewhere.log")
    made = Machine(tmp_path / "runs")
    yield made
    made.close()
