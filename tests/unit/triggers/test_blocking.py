"""Nothing that may block is called in the event loop that all triggers share: files and pauses belong into threads."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.status import Phase
from tests.unit.triggers.airflow import Airflow, Log, first_event, submitted, trigger_for, wait_phase
from tests.unit.triggers.many import Machine

RUNS = 30
BLOCKING = {
    "open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.kill", "fcntl.flock",
    "time.sleep", "subprocess.Popen", "os.posix_spawn", "os.fork", "socket.connect", "socket.getaddrinfo",
}  # fmt: skip
"""Audit events of Python (source: Python 3.11 docs, "Audit events table")."""


PACKAGE = "/siflow_provider/"


class Watch:
    """Keeps where our code called something that may block, on one thread.

    Python never lets an audit hook go: there is one, and it looks only while `thread` is set.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        self.found: list[str] = []
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self.thread or event not in BLOCKING:
            return
        frames = [frame for frame, _ in traceback.walk_stack(None)]  # lines of source would be read, which is heard
        names = [frame.f_code.co_filename for frame in frames]
        if any("importlib" in name for name in names):
            return  # once a process
        ours = [f"{name} {frame.f_lineno}" for frame, name in zip(frames, names, strict=True) if PACKAGE in name]
        if ours:
            self.found.append(f"{event} {args[:1]}, called in {ours[0]}")

    @contextmanager
    def here(self) -> Iterator[list[str]]:
        """Look at this very thread."""
        self.thread, self.found = threading.get_ident(), []
        try:
            yield self.found
        finally:
            self.thread = None


WATCH = Watch()


async def test_following_many_runs_to_their_ends_blocks_the_loop_nowhere(airflow: Airflow, machine: Machine) -> None:
    log = Log()
    refs = [machine.begin(f"run-{number}") for number in range(RUNS)]
    with WATCH.here() as blocked:
        events = [asyncio.ensure_future(first_event(trigger_for(ref, log=log, task_id=ref.name))) for ref in refs]
        for ref in refs:
            await asyncio.to_thread(machine.log(ref).write_text, "trains\n")
        await log.until(lambda: log.lines == RUNS)
        for ref in refs:
            await asyncio.to_thread(machine.end, ref)
        ended = await asyncio.gather(*events)
    assert [event.outcome.kind for event in ended if event.outcome] == [OutcomeKind.SUCCEEDED] * RUNS
    assert blocked == []


async def test_killing_a_task_blocks_the_loop_nowhere(airflow: Airflow, backend: Any) -> None:
    ref = await submitted(backend, "sleep 600")
    await wait_phase(backend, ref, Phase.RUNNING)
    trigger = trigger_for(ref)
    with WATCH.here() as blocked:
        event = asyncio.ensure_future(first_event(trigger))
        await asyncio.sleep(0.5)
        airflow.state = "failed"
        await trigger.on_kill()
        await wait_phase(backend, ref, Phase.STOPPED)
        event.cancel()
        await asyncio.gather(event, return_exceptions=True)
        await trigger.cleanup()
    assert blocked == []


def test_a_blocking_call_would_be_found(tmp_path: Path) -> None:
    from siflow_provider.triggers.shown import read_shown

    (tmp_path / "a.log").write_text("")
    with WATCH.here() as blocked:
        read_shown("run", [tmp_path / "a.log"])
    assert len(blocked) == 1
    assert "triggers/shown.py" in blocked[0]
