"""Every sensor of these tests asks the scripted machine."""

from __future__ import annotations

import pytest

from siflow_provider import backends


@pytest.fixture(autouse=True)
def _scripted_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.BACKENDS, "local", "tests.unit.sensors.scripted:Scripted")
