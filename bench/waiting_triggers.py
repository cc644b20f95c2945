"""One process that holds many triggers in one event loop, as a triggerer does, and measures itself.

Told by one line of JSON on its input; tells lines of JSON: `held` after the hold, and an `event` for each trigger that
fired. Whoever started it ends it. Requests and connections are counted in aiohttp, through which both this provider and
the peers' triggers go, so that no bookkeeping of either is trusted.

    python -m bench.waiting_triggers < order
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

OURS, JOBS, PODS = "RunTrigger", "KubernetesJobTrigger", "KubernetesPodTrigger"
CONNECTION = "bench_waiting"
DAY = 86_400
QUIET = 15.0
IDLE = 0.25
"""Of a core. A trigger that polls may never get quieter: it is waited for as long as its start may take."""
LISTS = {"list pods", "list pytorchjobs", "list workloads"}


@dataclass(frozen=True)
class Order:
    """What is held: the trigger's class, the jobs (for ours whole refs), the seconds before and while measuring."""

    trigger: str
    namespace: str
    waiting: list[dict[str, Any]]
    settle: float
    hold: float


@dataclass(frozen=True)
class Held:
    """What holding costs: requests by what they asked, in the hold and before it; CPU seconds; MiB above the start."""

    requests: dict[str, int]
    requests_before: dict[str, int]
    connections: int
    agents: list[str]
    cpu: float
    cpu_before: float
    seconds: float
    memory: float
    late: float
    alive: int


class Traffic:
    """Counts what leaves this process through aiohttp."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.connections = 0

    def watch(self) -> None:
        """Give every session that is made from now on a trace."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._request)
        trace.on_connection_create_end.append(self._connection)
        made = aiohttp.ClientSession.__init__

        def init(session: aiohttp.ClientSession, *args: Any, **kwargs: Any) -> None:
            kwargs["trace_configs"] = [*(kwargs.get("trace_configs") or ()), trace]
            made(session, *args, **kwargs)

        aiohttp.ClientSession.__init__ = init  # type: ignore[method-assign, assignment]

    async def _request(self, session: Any, context: Any, params: aiohttp.TraceRequestStartParams) -> None:
        query = params.url.query
        kind = re.sub(r".*/namespaces/[^/]+/", "", params.url.path)
        resource, _, name = kind.partition("/")
        verb = "watch" if query.get("watch") else "get" if name else "list"
        self.requests[f"{verb if params.method == 'GET' else params.method.lower()} {resource}"] += 1
        self.agents.add(params.headers.get("User-Agent", "").split("/")[0])

    async def _connection(self, session: Any, context: Any, params: Any) -> None:
        self.connections += 1


def run_trigger(order: Order) -> Callable[[dict[str, Any]], BaseTrigger]:
    from siflow_provider.core.status import JobRef
    from siflow_provider.triggers.run import Carried, RunTrigger

    return lambda ref: RunTrigger(conn_id=CONNECTION, ref=JobRef.model_validate(ref), carried=Carried(prefix="bench"))


def job_trigger(order: Order) -> Callable[[dict[str, Any]], BaseTrigger]:
    from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger

    space = order.namespace
    return lambda job: KubernetesJobTrigger(job["name"], space, [], space, "base", kubernetes_conn_id=CONNECTION)


def pod_trigger(order: Order) -> Callable[[dict[str, Any]], BaseTrigger]:
    from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger

    # waiting longer than its default of two minutes would end it
    return lambda pod: KubernetesPodTrigger(
        pod["name"],
        order.namespace,
        datetime.now(UTC),
        "base",
        kubernetes_conn_id=CONNECTION,
        startup_timeout=DAY,
        schedule_timeout=DAY,
    )


TRIGGERS = {OURS: run_trigger, JOBS: job_trigger, PODS: pod_trigger}


def memory() -> float:
    """Return the resident MiB of this process now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize() / 2**20


def cpu() -> float:
    """Return the CPU seconds of this process so far, all its threads."""
    times = os.times()
    return times.user + times.system


class Holder:
    """Holds the triggers of an order.

    Args:
        order: what to hold.
        say: takes what is to be told.
    """

    def __init__(self, order: Order, say: Callable[[dict[str, Any]], None]) -> None:
        self._order, self._say = order, say
        self._traffic = Traffic()
        self._highest = self._late = 0.0

    async def run(self) -> None:
        """Start, settle, hold, then tell of each end until this process is ended."""
        self._traffic.watch()
        make = TRIGGERS[self._order.trigger](self._order)
        gc.collect()
        base, cpu_before = memory(), cpu()
        waiting = []
        for one in self._order.waiting:
            waiting.append(asyncio.create_task(self._follow(make(one), one["name"])))
            await asyncio.sleep(0)  # as a triggerer does between two
        await self._settle()
        before, cpu_settled, started = Counter(self._traffic.requests), cpu(), time.monotonic()
        connections, self._late = self._traffic.connections, 0.0
        await self._watch_itself(self._order.hold)
        held = Held(
            requests=dict(self._traffic.requests - before),
            requests_before=dict(before),
            connections=self._traffic.connections - connections,
            agents=sorted(self._traffic.agents),
            cpu=cpu() - cpu_settled,
            cpu_before=cpu_settled - cpu_before,
            seconds=time.monotonic() - started,
            memory=self._highest - base,
            late=self._late,
            alive=sum(not one.done() for one in waiting),
        )
        self._say({"held": asdict(held)})
        await asyncio.gather(*waiting)
        await asyncio.Event().wait()

    async def _settle(self) -> None:
        """Let all begin, and go on while there is still work to do: ten thousand objects are forty pages."""
        await self._watch_itself(self._order.settle)
        end = time.monotonic() + 60 + len(self._order.waiting) / 40
        lists, busy = -1, 0.0
        while (now := sum(self._traffic.requests[each] for each in LISTS)) != lists or busy > IDLE:
            lists, before, begun = now, cpu(), time.monotonic()
            await self._watch_itself(QUIET)
            busy = (cpu() - before) / (time.monotonic() - begun)
            if time.monotonic() > end:
                return

    async def _watch_itself(self, seconds: float) -> None:
        """Note the highest memory, and by how much the event loop was late, for that long."""
        end = time.monotonic() + seconds
        while (begun := time.monotonic()) < end:
            await asyncio.sleep(0.1)
            self._late = max(self._late, time.monotonic() - begun - 0.1)
            self._highest = max(self._highest, memory())

    async def _follow(self, trigger: BaseTrigger, name: str) -> None:
        try:
            async for event in trigger.run():
                self._say({"event": name, "at": time.time(), "payload": str(event.payload)[:300]})
                return
        except Exception as error:
            self._say({"event": name, "at": time.time(), "error": repr(error)[:300]})


def told_to(output: IO[str]) -> Callable[[dict[str, Any]], None]:
    def say(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=output, flush=True)

    return say


def main() -> None:
    """Hold what standard input orders. What triggers log or print goes to standard error, as text."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = Order(**json.loads(sys.stdin.readline()))
    asyncio.run(Holder(order, told_to(output)).run())


if __name__ == "__main__":
    main()
