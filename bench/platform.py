"""What waiting costs on the platform: requests per minute for ten thousand queued tasks, and what they need here.

A fake platform in a process of its own holds the tasks in its queue; each is watched as a task's trigger watches it, by
a backend of its own. The numbers are counted by the fake: what arrived, by call. One request per task and interval,
which is what polling each task by itself costs, is printed beside it. One bound holds for every number of tasks: it is
said whether it was kept, and the command fails where it was not.

    python -m bench.platform [--tasks 10000] [--seconds 60]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import secrets
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bench.bounds import is_kept
from scripts.airflow_stack.settings import find_free_port
from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.platform.mark import MARK_ENV, Mark
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef
from tests.platform.client import connection
from tests.platform.names import POOL

POLL_SECONDS = 30.0
"""How often users of the platform poll a task, by their public scripts."""
MOST_A_MINUTE = 60.0
"""Requests, however many tasks wait: a page of 500 in 1.5 s is 40, and how many listings begin in one minute varies."""


@contextmanager
def platform() -> Iterator[str]:
    """Run a fake platform and return where it is."""
    port = find_free_port()
    command = [sys.executable, "-m", "tests.platform", "--port", str(port)]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{url}/control/requests", trust_env=False)
                break
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


async def fill(url: str, count: int) -> list[JobRef]:
    """Put tasks into the queue that no room will ever be for."""
    marks = [Mark(run=str(uuid.uuid4()), name=f"bench-{secrets.token_hex(4)}-{number}") for number in range(count)]
    bodies = [
        {
            "namePrefix": mark.name, "type": "pytorchjob", "image": "i", "imageVersion": "1", "imageUrl": "i:1",
            "cmd": "true", "workers": 0, "resourcePool": POOL, "instances": [{"name": "cpu.demo-1", "countPerPod": 99}],
            "taskEnv": [{"envKey": MARK_ENV, "envValue": mark.text(), "hide": False}],
        }
        for mark in marks
    ]  # fmt: skip
    async with httpx.AsyncClient(trust_env=False, timeout=600) as client:
        answer = await client.post(f"{url}/control/tasks", json=bodies)
        uuids = answer.raise_for_status().json()
    return [mark.ref(uid) for mark, uid in zip(marks, uuids, strict=True)]


async def watch_all(settings: Settings, refs: list[JobRef], url: str, seconds: float) -> tuple[Counter[str], float]:
    """Watch every task for so long and return the requests that arrived, by call, and the CPU seconds used here."""
    unseen, all_seen = {ref.uid for ref in refs}, asyncio.Event()

    async def one(ref: JobRef) -> None:
        async with PlatformBackend(settings, Pace(answer=60.0)) as backend:
            async for _ in backend.watch(ref):
                unseen.discard(ref.uid)
                if not unseen:
                    all_seen.set()

    watching = [asyncio.create_task(one(ref)) for ref in refs]
    await all_seen.wait()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        await client.delete(f"{url}/control/requests")
        before = time.process_time()
        await asyncio.sleep(seconds)
        used = time.process_time() - before
        requests = (await client.get(f"{url}/control/requests")).json()
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return Counter(f"{method} {path}" for method, path in requests), used


async def measure(url: str, count: int, seconds: float) -> bool:
    """Measure and print one size; say whether the bound was kept."""
    refs = await fill(url, count)
    found, used = await watch_all(connection(f"{url}/sfapi"), refs, url, seconds)
    per_minute = sum(found.values()) * 60.0 / seconds
    each = count * 60.0 / POLL_SECONDS
    print(f"{count:>6} waiting tasks: {per_minute:6.1f} requests a minute", end="")
    print(f" ({each / max(per_minute, 1):.0f} times fewer than one for each task every {POLL_SECONDS:g} s: {each:.0f})")
    print(f"       by call: {dict(found)}; CPU {100 * used / seconds:.1f} % of one core", end="")
    print(f"; memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    return is_kept("requests a minute", per_minute, MOST_A_MINUTE)


def main() -> int:
    """Measure and print; 1 where the bound was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    kept = []
    for count in sorted({100, options.tasks}):
        with platform() as url:
            kept.append(asyncio.run(measure(url, count, options.seconds)))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
