"""Short words for what the tests do with a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from siflow_provider.core.identity import Identity
from siflow_provider.core.meter import Sizes
from siflow_provider.core.outcome import AlertRule, RunEnd
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import RenderContext, TrainingBackend
from siflow_provider.core.run import run
from siflow_provider.core.status import JobRef, LogCursor, LogLine, LogSelection, Phase, Status
from siflow_provider.spec.resolve import ResolvedTask
from tests.contract.world import World


def mine(*, task_id: str = "train", try_number: int = 1, installation: str = "") -> Identity:
    """Return the identity of a try of an Airflow task that no other test has."""
    return Identity(
        dag_id="dag", task_id=task_id, run_id=Identity.random().nonce, try_number=try_number, installation=installation
    )


def context(identity: Identity | None = None, *, instance: str = "") -> RenderContext:
    """Return the context of the given attempt, or of a run that nobody else has."""
    return RenderContext(identity=identity or mine(), user_name="mia", instance=instance)


async def start(backend: TrainingBackend, task: ResolvedTask, identity: Identity | None = None) -> JobRef:
    """Submit the task."""
    return await backend.submit(backend.render(task, context(identity)))


async def until(
    backend: TrainingBackend, ref: JobRef, done: Callable[[Status], bool], *, seconds: float = 30.0
) -> Status:
    """Watch the run until a snapshot is as wanted."""
    async with asyncio.timeout(seconds):
        async for status in backend.watch(ref):
            if done(status):
                return status
    raise AssertionError(f"the watch of {ref.name} ended before the run was as wanted")


async def until_phase(backend: TrainingBackend, ref: JobRef, *phases: Phase) -> Status:
    """Watch the run until it is in one of these phases."""
    return await until(backend, ref, lambda status: status.phase in phases)


async def end(backend: TrainingBackend, ref: JobRef) -> Status:
    """Watch the run to its end."""
    return await until(backend, ref, lambda status: status.phase.terminal)


async def run_to_end(backend: TrainingBackend, task: ResolvedTask, told: Told) -> tuple[RunEnd, list[JobRef]]:
    """Run the task as the command does, and return its end and each attempt's ref."""
    refs: list[JobRef] = []
    async with asyncio.timeout(120):
        ended = await run(
            backend, task, context(), follow_policy(task, logs="all"), told, quota="require", on_ref=refs.append
        )
    return ended, refs


async def read(
    backend: TrainingBackend,
    ref: JobRef,
    selection: LogSelection = "all",
    cursor: LogCursor | None = None,
    *,
    follow: bool = True,
) -> list[LogLine]:
    """Return all lines to the end of the run (or, without `follow`, to now)."""
    async with asyncio.timeout(60):
        return [line async for line in backend.logs(ref, selection, cursor or LogCursor(), follow=follow)]


async def expect_nothing_running(world: World, ref: JobRef) -> None:
    """Wait until nothing of the run is left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + world.patience_seconds
    while left := await world.still_running(ref):
        assert loop.time() < deadline, f"still running: {left}"
        await asyncio.sleep(0.05)


async def first_lines(world: World, backend: TrainingBackend, ref: JobRef) -> list[LogLine]:
    """Wait until the run has written something, and return what is there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + world.patience_seconds
    while not (lines := await read(backend, ref, follow=False)):
        assert loop.time() < deadline, "the run writes nothing"
        await asyncio.sleep(0.05)
    return lines


def texts(lines: list[LogLine], replica: str) -> list[str]:
    """Return one replica's lines, pieces of long lines put together."""
    out: list[str] = []
    joined = ""
    for line in lines:
        if line.replica != replica:
            continue
        joined += line.text
        if not line.partial:
            out.append(joined)
            joined = ""
    return out


class Told:
    """A reporter that keeps what it is told."""

    checkpoint_seconds = 1.0

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.cursor = LogCursor()
        self.alerts: list[str] = []
        self.seen = asyncio.Event()

    def line(self, line: LogLine) -> None:
        self.lines.append(line)
        self.seen.set()

    def note(self, text: str, *, warning: bool = False) -> None:
        (self.warnings if warning else self.notes).append(text)
        self.seen.set()

    async def checkpoint(self, cursor: LogCursor) -> None:
        self.cursor = cursor

    async def sizes(self, sizes: Sizes) -> None:
        """Keep nothing."""

    async def links(self, links: Mapping[str, str]) -> None:
        """Keep nothing."""

    async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
        self.alerts.append(event)

    async def until_line(self, text: str, *, seconds: float = 120.0) -> None:
        """Wait until a line with this text was shown."""
        await self._until(lambda: any(line.text == text for line in self.lines), seconds)

    async def until_warning(self, beginning: str, *, seconds: float = 120.0) -> None:
        """Wait until a warning that begins so was given."""
        await self._until(lambda: any(text.startswith(beginning) for text in self.warnings), seconds)

    async def until_note(self, beginning: str, *, seconds: float = 120.0) -> None:
        """Wait until a note that begins so was given."""
        await self._until(lambda: any(text.startswith(beginning) for text in self.notes), seconds)

    async def _until(self, true: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                self.seen.clear()
                await self.seen.wait()

    @property
    def everything(self) -> str:
        """All texts, for a search."""
        return "\n".join([*(line.text for line in self.lines), *self.notes, *self.warnings, *self.alerts])
