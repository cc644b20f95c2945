"""How long a replica may take to end, and who may say so."""

from __future__ import annotations

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.grace import GRACE_ENV, grace_seconds
from siflow_provider.core.status import LogCursor, Phase
from siflow_provider.errors import UsageError
from tests.unit.backends.local.following import lines_of, running
from tests.unit.backends.local.tasks import context, task


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), ("0", 0.0), ("1.5s", 1.5), ("30s", 30.0)])
def test_grace_is_ten_seconds_or_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv(GRACE_ENV, text)
    assert grace_seconds() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "1h"])
async def test_wrong_grace_is_told_to_who_submits(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(GRACE_ENV, text)
    with pytest.raises(UsageError, match=f"{GRACE_ENV} is '{text}'"):
        await backend.submit(backend.render(task("true"), context()))
    assert await backend.runs() == []


async def test_replica_has_the_time_to_write_its_last_checkpoint_when_it_is_stopped(backend: LocalBackend) -> None:
    command = f"trap 'sleep 0.5; echo \"saved, ${{{GRACE_ENV}:-untold}}\"; exit 0' TERM; echo up; sleep 600 & wait"
    ref = await backend.submit(backend.render(task(command), context()))
    await running(backend, ref)
    async for line in backend.logs(ref, "all", LogCursor()):
        assert line.text == "up"
        break
    await backend.stop(ref, by="ada")
    assert (await backend.status(ref)).phase is Phase.STOPPED
    assert await lines_of(backend, ref) == ["up", "saved, untold"]
