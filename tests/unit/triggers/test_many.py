"""Many deferred tasks in one triggerer: its loop stays free, and what they hold does not grow with their number."""

from __future__ import annotations

import asyncio
import gc
import time

import psutil
import pytest

from siflow_provider.core.outcome import OutcomeKind
from tests.unit.triggers.airflow import Airflow, Log, first_event, trigger_for
from tests.unit.triggers.many import Machine

pytestmark = pytest.mark.many
TASKS = 500
WATCHED_SECONDS = 5.0
LAG_SECONDS = 0.5
BLOCKED_SECONDS = 60.0
DESCRIPTORS = 100
TOGETHER = 20
BACKLOG_BYTES = 2**30
ROUNDS = 1000
MEGABYTE = 2**20
LONG_LINE = 5 * MEGABYTE + 1  # no whole number of pieces


class LagProbe:
    """For how long the event loop did not come round.

    Attributes:
        worked: the most that this process itself computed meanwhile: what the time would be on an idle machine.
        longest: by the clock; on a machine that does much else a process gets no turn for seconds.
    """

    def __init__(self) -> None:
        self.worked = self.longest = 0.0

    async def run(self) -> None:
        while True:
            begun, computed = time.monotonic(), time.process_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.monotonic() - begun)
            self.worked = max(self.worked, time.process_time() - computed)
            await asyncio.sleep(0.01)


async def test_five_hundred_deferred_tasks_leave_the_loop_free(airflow: Airflow, machine: Machine) -> None:
    process, log = psutil.Process(), Log()
    refs = [machine.begin(f"run-{number}") for number in range(TASKS)]
    files = process.num_fds()
    for ref in refs:
        machine.log(ref).write_text(f"{ref.name} trains\n")
    events = [asyncio.ensure_future(first_event(trigger_for(ref, log=log, task_id=ref.name))) for ref in refs]
    await log.until(lambda: log.lines == TASKS)
    probe = LagProbe()
    probing = asyncio.ensure_future(probe.run())
    await asyncio.sleep(WATCHED_SECONDS)
    held = process.num_fds() - files
    probing.cancel()
    for ref in refs:
        machine.end(ref)
    ended = await asyncio.gather(*events)
    assert [event.outcome.kind for event in ended if event.outcome] == [OutcomeKind.SUCCEEDED] * TASKS
    assert held < DESCRIPTORS
    assert probe.worked < LAG_SECONDS
    assert probe.longest < BLOCKED_SECONDS
    gc.collect()  # what was left open says so now, and that is an error


async def test_a_backlog_of_a_gigabyte_is_caught_up_in_bounded_memory_and_whole(
    airflow: Airflow, machine: Machine
) -> None:
    refs = [machine.begin(f"run-{number}") for number in range(TOGETHER)]
    for ref in refs:
        with machine.log(ref).open("wb") as file:
            file.write(b"begin\n" + b"x" * LONG_LINE + b"\n")  # and a hole full of zeros behind it
            file.seek(BACKLOG_BYTES // TOGETHER)
            file.write(b"\nend\n")
        machine.end(ref)
    before = psutil.Process().memory_info().rss
    logs = [Log() for _ in refs]
    await asyncio.gather(
        *(first_event(trigger_for(ref, log=log, task_id=ref.name)) for ref, log in zip(refs, logs, strict=True))
    )
    assert {log.shown for log in logs} == {BACKLOG_BYTES // TOGETHER + len("\nend\n")}
    assert {log.checksum for log in logs} == {machine.checksum(refs[0])}
    assert max(log.rss for log in logs) - before < 150 * MEGABYTE


async def test_a_thousand_rounds_of_lines_leave_handles_and_memory_as_they_were(
    airflow: Airflow, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("SHORTEST_SECONDS", "LONGEST_SECONDS"):
        monkeypatch.setattr(f"siflow_provider.backends.local.pace.{limit}", 0.001)
    process, log = psutil.Process(), Log()
    ref = machine.begin("long")
    event = asyncio.ensure_future(first_event(trigger_for(ref, log=log)))
    seen: list[tuple[int, int]] = []
    for number in range(ROUNDS):
        with machine.log(ref).open("a") as file:
            file.write(f"step {number}\n")
        await log.until(lambda number=number: log.lines == number + 1)  # type: ignore[misc]
        seen.append((process.num_fds(), process.memory_info().rss))
    machine.end(ref)
    assert (await event).outcome is not None
    warm, last = seen[ROUNDS // 10], seen[-1]
    assert last[0] <= warm[0] + 2  # a thread that reads just now
    assert last[1] - warm[1] < 20 * MEGABYTE
