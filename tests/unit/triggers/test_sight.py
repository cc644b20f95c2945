"""A connection that is changed while a run is followed: what sees the run no more is replaced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.status import JobRef, Status
from siflow_provider.errors import AccessDenied
from tests.unit.triggers.airflow import Airflow, first_event, submitted, trigger_for

pytestmark = pytest.mark.runs


async def test_key_that_is_replaced_in_the_connection_is_taken_while_the_old_one_sees_nothing(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ref = await submitted(backend, "true")
    watch, refused = LocalBackend.watch, asyncio.Event()

    def connect(password: str) -> None:
        extra = {"backend": "local", "state_dir": str(tmp_path / "runs")}
        value = {"conn_type": "siflow", "password": password, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SIFLOW_DEFAULT", json.dumps(value))

    async def watch_with_the_new_key(self: LocalBackend, ref: JobRef) -> AsyncIterator[Status]:
        password = self._settings.password
        if password is not None and password.reveal() == "revoked-key":
            refused.set()
            raise AccessDenied("the key is not accepted.")
        async for status in watch(self, ref):
            yield status

    monkeypatch.setattr(LocalBackend, "watch", watch_with_the_new_key)
    monkeypatch.setattr("siflow_provider.triggers.sight.LOOK_SECONDS", 0.05)
    connect("revoked-key")
    following = asyncio.create_task(first_event(trigger_for(ref)))
    await refused.wait()
    connect("fresh-key-1")
    async with asyncio.timeout(60):
        assert (await following).outcome.kind is OutcomeKind.SUCCEEDED
