"""What a triggerer gives a trigger, as far as these tests need it."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil

from siflow_provider.core.identity import Identity
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.spec import PyTorchJob
from siflow_provider.spec.resolve import resolve
from siflow_provider.triggers.run import Carried, RunEvent, RunTrigger, RunTriggerData


class Airflow:
    """What the trigger asks Airflow for: kept XComs, and the task instance's state."""

    def __init__(self) -> None:
        self.xcoms: dict[str, Any] = {}
        self.state: str | None = "deferred"


class Log:
    """A logger that keeps no line: what is shown of replicas is counted.

    Attributes:
        lines: how many lines and pieces of lines.
        shown: their bytes, a line end behind each line.
        checksum: CRC-32 of these.
        rss: the most memory that this process held meanwhile, bytes.
    """

    def __init__(self) -> None:
        self.lines = self.shown = self.checksum = self.rss = 0
        self._changed = asyncio.Event()

    def info(self, text: str, *values: Any) -> None:
        if text != "[%s] %s":
            return
        self.lines += 1
        line = str(values[1]).encode()
        # the backend cuts what is longer; a cut line's last piece is shorter
        raw = line if len(line) == MAX_LINE_BYTES else line + b"\n"
        self.shown += len(raw)
        self.checksum = zlib.crc32(raw, self.checksum)
        if self.lines % 100 == 0:
            self.rss = max(self.rss, psutil.Process().memory_info().rss)
        self._changed.set()

    warning = info

    async def until(self, done: Callable[[], bool], *, seconds: float = 240) -> None:
        """Wait until lines have been shown as wanted."""
        async with asyncio.timeout(seconds):
            while not done():
                self._changed.clear()
                await self._changed.wait()


def trigger_for(ref: JobRef, *, task_id: str = "t", log: Any = None, **data: Any) -> RunTrigger:
    """Return the trigger as a triggerer has it: back from the database, with its task instance."""
    made = RunTriggerData(**{"ref": ref, "carried": Carried(prefix="d-t"), **data})
    trigger = RunTrigger(**json.loads(json.dumps(made.model_dump(mode="json"))))
    trigger.task_instance = SimpleNamespace(  # type: ignore[assignment]
        dag_id="d", task_id=task_id, run_id="r", map_index=-1, try_number=1
    )
    if log is not None:
        trigger._log = log
    return trigger


async def first_event(trigger: RunTrigger) -> RunEvent:
    """Run the trigger to its event, and return that as the operator gets it."""
    event = await anext(aiter(trigger.run()))
    return RunEvent.model_validate(json.loads(json.dumps(event.payload)))


async def submitted(backend: Any, command: str) -> JobRef:
    form = {
        "image": "registry.example/train:1",
        "command": command,
        "compute": {"type": "on_demand", "instances": [{"cpu": "100m", "memory": "64Mi"}]},
    }
    context = RenderContext(identity=Identity(dag_id="d", task_id="t", run_id="r"))
    ref = await backend.submit(backend.render(resolve(PyTorchJob.model_validate(form)), context))
    assert isinstance(ref, JobRef)
    return ref


async def wait_phase(backend: Any, ref: JobRef, phase: Phase) -> None:
    async with asyncio.timeout(30):
        async for status in backend.watch(ref):
            if status.phase is phase:
                return
