"""A stop and a deletion are done when the task is not alive any more, whatever the platform says to the request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from siflow_provider.backends.platform import matches
from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.errors import AccessDenied, BackendError
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.tasks import context, make_twin, statuses, task

STOP = {"method": "POST", "path": "/tasks/stop$"}
NO = [
    pytest.param({"envelope_false": "the task is already finished"}, id="envelope"),
    pytest.param({"status": 409, "envelope_false": "already final"}, id="409"),
    pytest.param({"status": 404, "envelope_false": "task not found"}, id="404"),
]


@pytest.mark.parametrize("said", NO)
async def test_a_stop_that_comes_too_late_is_done(
    running: RunningPlatform, backend: PlatformBackend, said: dict[str, Any]
) -> None:
    running.change(run_seconds=60)
    ref = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{**STOP, "after": True, **said}])
    await backend.stop(ref, by="mia")
    assert statuses(running) == ["Stopped"]
    assert (await backend.status(ref)).phase is Phase.STOPPED


async def test_a_stop_whose_first_answer_was_lost_is_done(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(run_seconds=60, stop_again="409", faults=[{**STOP, "after": True, "status": 502}])
    ref = await backend.submit(backend.render(task(), context()))
    await backend.stop(ref, by="mia")
    assert statuses(running) == ["Stopped"]


async def test_a_stop_that_is_refused_while_the_task_runs_on_is_told(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.change(run_seconds=60)
    ref = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{**STOP, "status": 409, "envelope_false": "it is locked"}])
    with pytest.raises(BackendError, match="it is locked"):
        await backend.stop(ref, by="mia")
    assert statuses(running) == ["Running"]


@pytest.mark.parametrize("said", NO)
async def test_a_deletion_of_what_is_gone_is_done(
    running: RunningPlatform, backend: PlatformBackend, said: dict[str, Any]
) -> None:
    ref = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{"method": "DELETE", "after": True, **said}])
    await backend.delete(ref)
    assert statuses(running) == []


async def test_a_deletion_that_is_refused_is_told(running: RunningPlatform, backend: PlatformBackend) -> None:
    ref = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{"method": "DELETE", "status": 409, "envelope_false": "it is locked"}])
    with pytest.raises(BackendError, match="it is locked"):
        await backend.delete(ref)


async def test_a_second_task_that_ended_meanwhile_is_no_trouble(
    running: RunningPlatform, backend: PlatformBackend, caplog: pytest.LogCaptureFixture
) -> None:
    running.change(run_seconds=60)
    identity = Identity.random()
    first = await backend.submit(backend.render(task(), context(identity)))
    running.call(lambda: make_twin(running))
    running.change(faults=[{**STOP, "after": True, "status": 409, "envelope_false": "already final"}])
    with caplog.at_level(logging.WARNING):
        assert await backend.find(identity) == first
    assert "can't be stopped" not in caplog.text


async def test_a_second_task_that_can_not_be_stopped_keeps_no_run_from_being_seen(
    running: RunningPlatform,
    backend: PlatformBackend,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matches, "_STOPPED_AGAIN_AFTER", 0.2)
    running.change(run_seconds=4.0)
    identity = Identity.random()
    first = await backend.submit(backend.render(task(), context(identity)))
    running.call(lambda: make_twin(running))
    other = await backend.submit(backend.render(task(), context()))
    running.change(faults=[{**STOP, "status": 403, "envelope_false": "not yours", "times": 9999}])

    async def end(ref: JobRef) -> list[Phase]:
        return [status.phase async for status in backend.watch(ref)]

    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(30):
            seen = await asyncio.gather(end(first), end(other))
        assert await backend.find(identity) == first
    assert [phases[-1] for phases in seen] == [Phase.SUCCEEDED, Phase.SUCCEEDED]
    assert [phases.count(Phase.UNKNOWN) for phases in seen] == [0, 0]
    assert caplog.text.count("can't be stopped now") == 1
    asked = running.call(lambda: running.platform.requests.count(("POST", "/task-service/v1/tasks/stop")))
    assert 2 <= asked <= 30  # again and again, but not with every listing
    with pytest.raises(AccessDenied):  # who asks for the stop himself hears of it
        await backend.stop(await backend.submit(backend.render(task(), context())), by="mia")
