"""A kill in a worker: five seconds, in which the run is told to stop before anything else is asked or waited for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.outcome import AlertRule
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendError
from siflow_provider.operators import stop as stopping
from siflow_provider.operators.stop import stop_quietly
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.store import Store
from tests.platform.client import connection
from tests.platform.platform import Platform
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.tasks import context as platform_context
from tests.unit.backends.platform.tasks import statuses
from tests.unit.backends.platform.tasks import task as platform_task
from tests.unit.core.script import Script, phases
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task


class Log:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def info(self, _: str, text: str) -> None:
        self.texts.append(text)

    warning = info


def begin(backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch) -> JobRef:
    """Submit a run, and let whoever opens a backend get this one."""
    monkeypatch.setattr(stopping, "make_backend", lambda _: backend)

    async def submit() -> JobRef:
        return await backend.submit(backend.render(make_task(), context()))

    return asyncio.run(submit())


def stop(log: Log, ref: JobRef | None, **more: Any) -> bool:
    reporter = TaskReporter(log, Store(None), veil=Veil())
    return stop_quietly(Settings(), context(), reporter, "stop", "the task was killed", ref=ref, **more)


@pytest.mark.platform
def test_slow_platform_is_told_to_stop_before_it_is_asked_for_anything(tmp_path: Path, monkeypatch: Any) -> None:
    from tests.platform import app  # FastAPI, for this test alone

    answer = app._signed

    async def late(*given: Any, **more: Any) -> Any:
        await asyncio.sleep(0.9)
        return await answer(*given, **more)

    with RunningPlatform(Platform(tmp_path, commands=False)) as running:
        running.change(run_seconds=600)
        settings = connection(running.url)

        async def submit() -> JobRef:
            async with PlatformBackend(settings) as backend:
                return await backend.submit(backend.render(platform_task(), platform_context()))

        ref = asyncio.run(submit())
        monkeypatch.setattr(app, "_signed", late)
        running.call(running.platform.requests.clear)
        reporter = TaskReporter(Log(), Store(None), veil=Veil())
        assert stop_quietly(settings, platform_context(), reporter, "stop", "the task was killed", ref=ref)
        assert running.call(lambda: running.platform.requests[0])[1].endswith("/tasks/stop")
        assert statuses(running)[-1].lower() in {"stopping", "stopped"}


class SlowToEnd(ScriptedBackend):
    """Its pods take longer to end than Airflow leaves a worker."""

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        await super().stop(ref, by=by)
        if wait:
            await asyncio.sleep(600)


def test_run_whose_pods_end_slowly_counts_as_stopped_and_is_finished_first(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, log, sent = SlowToEnd(Script(phases((0, Phase.RUNNING)))), Log(), []

    async def alert(_: TaskReporter, rule: AlertRule, event: str, *__: Any) -> None:
        sent.append((rule.connections, event))

    monkeypatch.setattr(TaskReporter, "alert", alert)
    ref = begin(backend, monkeypatch)
    rule = AlertRule(events={"stopped": 0}, connections=("oncall",))
    began = time.monotonic()
    assert stop(log, ref, alerts=(rule,), seconds=1.0)
    assert time.monotonic() - began < 3
    assert "finish attempt 1" in backend.calls
    assert sent == [(("oncall",), "stopped")]
    assert log.texts == [
        f"the task was killed: stopping {ref.name}",
        f"{ref.name} is told to stop, and nobody waits here until its last process has ended",
    ]


def test_attempt_that_has_ended_by_itself_is_no_run_that_a_kill_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, log = ScriptedBackend(Script(phases((0, Phase.FAILED)))), Log()
    ref = begin(backend, monkeypatch)
    assert not stop(log, ref)
    assert not stop(log, None)
    assert log.texts == []


def test_stop_that_is_refused_all_the_time_says_what_is_left_and_how_to_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(ScriptedBackend):
        async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
            raise BackendError("the webhook says no.")

    backend, log = Refuses(Script(phases((0, Phase.RUNNING)))), Log()
    ref = begin(backend, monkeypatch)
    assert not stop(log, ref, seconds=0.5)
    assert log.texts[0].startswith(f"stopping {ref.name}: refused, trying again (the webhook says no.")
    assert f"{ref.name} could not be stopped and may still be there" in log.texts[1]
    assert f"`siflow-provider stop {ref.name}` ends it" in log.texts[1]
