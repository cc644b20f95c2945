"""Lines reach the log file before they are forgotten, and no faster than Airflow takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from siflow_provider.core.status import JobRef, LogCursor, LogLine
from siflow_provider.triggers.drain import WINDOW, LogDrain, PacedBackend

INSTANCE = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1)
REF = JobRef(backend="local", kind="PyTorchJob", name="train-abc", uid="1", task_uuid="2")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    monkeypatch.setattr("siflow_provider.triggers.drain.SILENCE_SECONDS", 0.5)
    folder = tmp_path / "dag_id=d" / "run_id=r" / "task_id=t"
    folder.mkdir(parents=True)
    path = folder / "attempt=1.log.trigger.9.log"
    path.touch()
    return path


def fill(log: Path) -> None:
    log.write_text("line\n" * 10)


def take_away(log: Path) -> None:
    log.unlink()


async def found() -> LogDrain:
    drain = LogDrain(INSTANCE)
    await drain.find()
    return drain


async def test_flood_of_lines_is_held_back_until_airflow_has_written_them(log: Path) -> None:
    drain = await found()
    waiting = asyncio.create_task(drain.until_room(WINDOW + 10))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.2)
    fill(log)
    assert await asyncio.wait_for(waiting, 5)


async def test_log_that_does_not_grow_holds_a_run_up_once(log: Path) -> None:
    drain = await found()
    assert not await drain.until_room(WINDOW + 1)
    assert not await asyncio.wait_for(drain.until_room(WINDOW + 1), 0.3)
    fill(log)
    assert await drain.until_room(WINDOW + 1)


async def test_last_line_is_waited_for_while_the_log_grows(log: Path) -> None:
    drain = await found()
    waiting = asyncio.create_task(drain.until_written("the end"))
    with log.open("a") as file:
        for _ in range(4):
            await asyncio.sleep(0.2)
            file.write("line\n")
            file.flush()
        assert not waiting.done()
        file.write("the end\n")
    assert await asyncio.wait_for(waiting, 5)
    assert not await drain.until_written("something else")


async def test_log_that_is_taken_away_is_not_waited_for(log: Path) -> None:
    drain = await found()
    take_away(log)
    assert not await asyncio.wait_for(drain.until_written("the end"), 0.3)


async def test_nothing_is_waited_for_where_the_log_is_out_of_sight() -> None:
    drain = LogDrain(None)
    await drain.find()
    assert not await drain.until_written("anything")
    assert not await drain.until_room(10**9)


async def test_few_long_lines_are_held_back_as_well(log: Path) -> None:
    class Backend:
        async def logs(self, *_: Any, follow: bool) -> AsyncIterator[LogLine]:
            for number in range(10):
                yield LogLine("master-0", "x" * 16_000, str(number))

    read: list[str] = []
    paced = PacedBackend(Backend(), await found(), lambda: len(read))  # type: ignore[arg-type]

    async def read_all() -> None:
        async for line in paced.logs(REF, "all", LogCursor()):
            read.append(line.position)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_all(), 0.3)
    assert len(read) == 5


async def test_lines_come_whole_and_in_order_through_a_paced_backend(log: Path) -> None:
    class Backend:
        name = "local"

        async def logs(self, *_: Any, follow: bool) -> AsyncIterator[LogLine]:
            for number in range(5 * WINDOW):
                yield LogLine("master-0", str(number), str(number))

    written: list[str] = []
    paced = PacedBackend(Backend(), await found(), lambda: len(written))  # type: ignore[arg-type]
    assert paced.name == "local"
    async for line in paced.logs(REF, "all", LogCursor()):
        written.append(line.text)
        with log.open("a") as file:
            file.write(line.text + "\n")
    assert written == [str(number) for number in range(5 * WINDOW)]
