"""Short ways for the tests to wait, with a deadline, for what a run does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.processes import MARKER_ENV
from siflow_provider.core.status import JobRef, LogCursor, Phase, Status

__all__ = ["end_of", "has_ended", "lines_of", "processes_of", "running", "stacks_with", "supervisor_of", "until"]

DEADLINE_SECONDS = 60.0


async def end_of(backend: LocalBackend, ref: JobRef) -> Status:
    """Return the run's last snapshot."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [status async for status in backend.watch(ref)][-1]


async def running(backend: LocalBackend, ref: JobRef) -> Status:
    """Wait until the run runs."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for status in backend.watch(ref):
            if status.phase is Phase.RUNNING:
                return status
            assert not status.phase.terminal, status
    raise AssertionError("unreachable")


async def lines_of(backend: LocalBackend, ref: JobRef, replica: str = "master-0") -> list[str]:
    """Return all lines of a replica of a run that ends."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [line.text async for line in backend.logs(ref, (replica,), LogCursor())]


async def stacks_with(backend: LocalBackend, ref: JobRef, text: str) -> dict[str, str]:
    """Return the run's stack dumps as soon as one of them has the text."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            dumps = await backend.dump_stacks(ref)
            if any(text in dump for dump in dumps.values()):
                return dumps
            await asyncio.sleep(0.2)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.05)


def processes_of(ref: JobRef) -> list[psutil.Process]:
    """Return the processes whose environment says that they are the run's."""
    return [process for process in psutil.process_iter() if process.pid and _marked(process, ref.uid)]


def supervisor_of(state_dir: Path, ref: JobRef) -> psutil.Process:
    """Return the run's supervisor; its parent is the guard."""
    state = json.loads((state_dir / "runs" / ref.name / "state.json").read_text())
    return psutil.Process(state["supervisor"])


def has_ended(process: psutil.Process) -> bool:
    """Say whether the process is over, whether or not its parent has noticed."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _marked(process: psutil.Process, uid: str) -> bool:
    try:
        return process.environ().get(MARKER_ENV) == uid and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False
