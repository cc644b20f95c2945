"""For how long many waiting tasks keep a triggerer's event loop from coming round: the real triggers, in one loop.

Runs of the embedded backend wait, each with its trigger and with a line in its log now and then. A probe asks every ten
milliseconds how long the loop took to come round: by the clock, and what its thread computed meanwhile, which is what
the clock shows where the machine does nothing else. While the tasks wait the latter has a bound, however many there
are: it is said whether it was kept, and the command fails where it was not. The start of all of them at once, and their
ends, are printed beside it. That nothing blocks the loop without computing, `tests/unit/triggers/test_blocking.py`
shows.

    python -m bench.loop [--tasks 500] [--seconds 60]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import psutil

from bench.bounds import is_kept
from siflow_provider.core.status import JobRef
from tests.unit.triggers.airflow import Airflow, Log, first_event, trigger_for
from tests.unit.triggers.many import Machine

MOST_SECONDS = 0.1
"""What one turn of the loop may compute while tasks wait. Airflow itself warns of turns above 0.2 s."""
PROBE_SECONDS = 0.01
LINES_A_SECOND = 20
SETTLE_SECONDS = 10.0
"""Who was just started looks more often."""


@dataclass
class Probe:
    """How late the loop was, by the clock, and what this process computed in those turns."""

    late: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            begun, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(PROBE_SECONDS)
            self.late.append(time.perf_counter() - begun - PROBE_SECONDS)
            self.computed.append(time.thread_time() - used)

    @property
    def most(self) -> float:
        """The most that was computed in one turn, seconds."""
        return max(self.computed)


@asynccontextmanager
async def probed(what: str) -> AsyncIterator[Probe]:
    """Probe the block, and print."""
    probe, began, process = Probe(), time.perf_counter(), time.process_time()
    probing = asyncio.create_task(probe.run())
    await asyncio.sleep(0)
    yield probe
    probing.cancel()
    took = time.perf_counter() - began
    print(
        f"{what:>8}: {took:6.1f} s; a turn computed {_spread(probe.computed)} and took {_spread(probe.late)};"
        f" CPU {100 * (time.process_time() - process) / took:.0f} % of one core"
    )


def _spread(seconds: list[float]) -> str:
    """Return the most and what 99 of 100 stay under."""
    return f"{1000 * max(seconds):.0f} ms at most (99 %: {1000 * sorted(seconds)[int(len(seconds) * 0.99)]:.0f} ms)"


async def write_lines(machine: Machine, refs: list[JobRef], seconds: float) -> int:
    """Let one run after the other write a line; return how many there were."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.to_thread(_append, machine.log(refs[count % len(refs)]), f"step {count}\n")
        count += 1
        await asyncio.sleep(1 / LINES_A_SECOND)
    return count


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def measure(machine: Machine, count: int, seconds: float) -> bool:
    """Measure and print; say whether the bound was kept."""
    refs, log, process = [machine.begin(f"run-{number}") for number in range(count)], Log(), psutil.Process()
    for ref in refs:
        machine.log(ref).write_text("begins\n")
    files = process.num_fds()
    gc.collect()
    gc.freeze()  # what Airflow has loaded is no matter of waiting: going through it all takes a tenth of a second
    async with probed("start"):
        events = [asyncio.ensure_future(first_event(trigger_for(ref, log=log, task_id=ref.name))) for ref in refs]
        await log.until(lambda: log.lines == count)
    await asyncio.sleep(SETTLE_SECONDS)
    async with probed("waiting") as waiting:
        written = await write_lines(machine, refs, seconds)
        held = process.num_fds() - files
    async with probed("end"):
        await log.until(lambda: log.lines == count + written)
        for ref in refs:
            machine.end(ref)
        ended = await asyncio.gather(*events)
    good = sum(1 for event in ended if event.outcome is not None)
    print(f"{count} tasks: {good} events, {log.lines} lines, {held} open files while waiting")
    kept = is_kept("seconds computed in a turn while waiting", waiting.most, MOST_SECONDS)
    return kept and good == count and log.lines == count + written


def main() -> int:
    """Measure and print; 1 where the bound was exceeded or a task's event or line was missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which they wait")
    options = parser.parse_args()
    airflow = Airflow()
    with tempfile.TemporaryDirectory() as folder:
        extra = {"backend": "local", "state_dir": f"{folder}/runs"}
        env = {
            "AIRFLOW_CONN_SIFLOW_DEFAULT": json.dumps({"conn_type": "siflow", "extra": extra}),
            "AIRFLOW__LOGGING__LOG_FILENAME_TEMPLATE": "nowhere.log",  # nobody writes one here
        }
        store = "siflow_provider.triggers.store.Store"
        with (
            patch.dict(os.environ, env),
            patch(f"{store}._put", lambda *where: airflow.xcoms.update(where[-1])),
            patch(f"{store}._get", lambda *where: airflow.xcoms.get(where[-1])),
        ):
            logging.disable(logging.INFO)
            machine = Machine(Path(folder, "runs"))
            try:
                return 0 if asyncio.run(measure(machine, options.tasks, options.seconds)) else 1
            finally:
                machine.close()


if __name__ == "__main__":
    sys.exit(main())
