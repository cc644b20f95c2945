"""A run of somebody else's, on a backend that plays scripts and writes down what is asked of it."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.status import JobRef
from tests.unit.core.script import Script
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

_TOUCHING = ("stop", "delete", "finish", "dump_stacks")
_current: list[ScriptedBackend] = []


def play(*scripts: Script) -> ScriptedBackend:
    """Return the backend that everybody opens from now on; its submissions play these scripts."""
    backend = ScriptedBackend(*scripts)
    backend.name = "local"
    _current[:] = [backend]
    return backend


def opened(_: Any) -> ScriptedBackend:
    """Return what a connection leads to."""
    return _current[0]


async def submit(backend: ScriptedBackend, attempt: int = 1) -> JobRef:
    """Do what the run's owner does."""
    return await backend.submit(backend.render(make_task(), context(attempt=attempt)))


def touched(backend: ScriptedBackend) -> list[str]:
    """Return what was done to the runs."""
    return [call for call in backend.calls if call.startswith(_TOUCHING)]
