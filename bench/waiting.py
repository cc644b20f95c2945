"""What it costs to wait for many jobs: our trigger beside the peers' KubernetesJobTrigger and KubernetesPodTrigger.

On a real API server with real controllers, for each number of jobs and each trigger in a fresh process: makes the jobs,
waits for all of them in one event loop, counts the requests that leave the process (in aiohttp), its CPU time and its
memory, then ends a sample of the jobs. Of each end two times are printed: `write`, from sending its terminal condition
until the API server has it, which is that server's time and nobody's merit; and `event`, from there until the trigger
fires. Their sum is the whole. The triggers keep their default intervals. Fails where ours tells an end too late or not
at all, holds more memory than it may, or could not be measured.

    python -m bench.waiting [--jobs 100 1000 10000] [--hold 60] [--sample 100] [--over 20] [--limit 1800]

Each measurement starts a control plane of its own, which takes root (scripts/control-plane) and a minute; there the
first job is made as users make it, and the others are written into the store as copies of that one (from 5000 on with
Kueue and the training operator held still: questions for places in the queue get no answer then). It takes four
minutes for each trigger and size, ten for 10000 jobs.
`SIFLOW_TEST_KUBECONFIG` names a control plane that is up; there all are made by requests, some five a second.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.bounds import is_kept
from bench.waiting_jobs import Maker, TooSlow
from bench.waiting_triggers import CONNECTION, JOBS, OURS, PODS, Held, Order
from siflow_provider.errors import BackendError
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane, run
from tests.control_plane.queues import Queues, unique

KINDS = (OURS, JOBS, PODS)
MISFITS = (TooSlow, httpx.HTTPError, BackendError, AssertionError, RuntimeError)
"""The cluster or the machine gave up at this size; the others may go well."""
LATEST_SECONDS, MOST_MIB = 2.0, 1024.0
"""What ours promises for ten thousand jobs, and so for fewer."""
COMPARED = ("requests/min", "CPU s/min", "MiB", "event p50 s", "event p99 s")


@dataclass(frozen=True)
class End:
    """One job's end: when it was sent, when the API server had answered that it is written, when the trigger fired."""

    sent: float
    written: float
    fired: float


@dataclass(frozen=True)
class Result:
    """What one trigger cost for one number of jobs: what holding cost, and the ends that it told of."""

    held: Held
    ends: list[End]
    missing: int
    odd: list[str]
    warnings: list[str]


class Child:
    """A fresh process that holds the triggers of an order; its logs go to a file."""

    def __init__(self, order: Order, kubeconfig: Path, folder: Path) -> None:
        extra = {"kube_config_path": str(kubeconfig), "namespace": order.namespace}
        kind = "siflow" if order.trigger == OURS else "kubernetes"
        extra |= {"backend": "kubernetes"} if order.trigger == OURS else {}
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder),
            f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps({"conn_type": kind, "extra": extra}),
        }
        self.log = folder / f"{order.trigger}-{len(order.waiting)}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.waiting_triggers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._process.stdin.close()
        self._rest = b""

    def told(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield what it tells within that time."""
        end = time.monotonic() + seconds
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while (left := end - time.monotonic()) > 0 and selector.select(left):
                piece = os.read(output.fileno(), 1 << 16)
                if not piece:
                    raise RuntimeError(f"the process ended: {self.log.read_text(errors='replace')[-2000:]}")
                *lines, self._rest = (self._rest + piece).split(b"\n")
                yield from map(json.loads, lines)

    def warnings(self) -> list[str]:
        """Return the last of what it logged that was not as it should be."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line[:300] for line in lines if "warning" in line or "error" in line][-3:]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def hold(maker: Maker, kubeconfig: Path, count: int, options: argparse.Namespace) -> Result:
    """Make the jobs, hold them, end a sample.

    Raises:
        TooSlow: the cluster did not make the jobs, or the process did not settle, in the time given.
    """
    waiting = maker.make(count, options.limit)
    order = Order(maker.trigger, maker.namespace, waiting, settle=20 + count / 200, hold=options.hold)
    with tempfile.TemporaryDirectory() as folder:
        child = Child(order, kubeconfig, Path(folder))
        try:
            return _measured(child, maker, order, options)
        finally:
            child.close()


def _measured(child: Child, maker: Maker, order: Order, options: argparse.Namespace) -> Result:
    early = []
    for told in child.told(options.limit):
        if "held" in told:
            held = Held(**told["held"])
            break
        early.append(told)
    else:
        raise TooSlow(f"the process had not held the triggers after {options.limit:g} s")
    fired = {told["event"] for told in early}
    step = max(1, len(order.waiting) // options.sample)
    sample = [one for one in order.waiting[::step] if one["name"] not in fired][: options.sample]
    ended = maker.end(sample, options.over / max(1, len(sample)))
    seen: dict[str, End] = {}
    for told in child.told(options.patience):
        if "error" in told:
            early.append(told)
        elif told["event"] in ended:
            seen[told["event"]] = End(*ended[told["event"]], fired=told["at"])
        if len(seen) == len(ended):
            break
    odd = [f"{told['event']}: {told.get('error') or told.get('payload')}" for told in early]
    return Result(held, list(seen.values()), len(ended) - len(seen), odd, child.warnings())


def percentile(values: list[float], part: float) -> float:
    """Return the value that this part of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def figures(result: Result) -> dict[str, float]:
    """Return the figures that are printed, by the table's heads."""
    held = result.held
    minutes = held.seconds / 60
    writes = [end.written - end.sent for end in result.ends]
    events = [end.fired - end.written for end in result.ends]
    whole = [end.fired - end.sent for end in result.ends]
    return {
        "requests/min": sum(held.requests.values()) / minutes,
        "connections/min": held.connections / minutes,
        "CPU s/min": held.cpu / minutes,
        "CPU s before": held.cpu_before,
        "MiB": held.memory,
        "loop late s": held.late,
        "write p50 s": percentile(writes, 0.5),
        "write p99 s": percentile(writes, 0.99),
        "event p50 s": percentile(events, 0.5),
        "event p99 s": percentile(events, 0.99),
        "whole p99 s": percentile(whole, 0.99),
        "ends": len(result.ends),
    }


def ratios(results: dict[str, Result]) -> Iterator[str]:
    """Yield how many times more the peers' triggers take than ours."""
    if OURS not in results:
        return
    ours = figures(results[OURS])
    for name, result in results.items():
        if name != OURS:
            theirs = figures(result)
            pairs = [f"{what} {theirs[what] / ours[what]:.1f}x" for what in COMPARED if ours[what]]
            yield f"{name} / {OURS}: {', '.join(pairs)}"


def report(count: int, results: dict[str, Result], misfits: dict[str, str]) -> None:
    """Print one size."""
    print(f"\n{count:,} waiting jobs")
    for place, (name, result) in enumerate(results.items()):
        found = figures(result)
        if place == 0:
            print(f"{'':20}", *found, sep="  ")
        cells = (f"{value:,.{0 if value >= 100 else 2}f}".rjust(len(what)) for what, value in found.items())
        print(f"{name:20}", *cells, sep="  ")
    for line in ratios(results):
        print(line)
    for name, result in results.items():
        held = result.held
        print(f"{name} as {', '.join(held.agents)}: before {held.requests_before}; while holding {held.requests}")
        if result.missing or held.alive != count:
            print(f"{name}: {result.missing} ends brought no event in time; {held.alive} were alive; {result.odd[:3]}")
            print("  ", *result.warnings, sep="\n  ")
    for name, why in misfits.items():
        print(f"{name} did not fit: {why}")
    sys.stdout.flush()


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """Yield the control plane that is named, or one that is started and thrown away with all that is in it."""
    if given := os.environ.get("SIFLOW_TEST_KUBECONFIG"):
        yield ControlPlane(Path(given))
        return
    with tempfile.TemporaryDirectory(prefix="siflow-bench-") as folder:
        run("up", folder)
        try:
            yield ControlPlane(Path(folder, "kubeconfig"), Path(folder))
        finally:
            run("down", folder)


def measure(plane: ControlPlane, count: int, trigger: str, options: argparse.Namespace) -> Result:
    """Measure a trigger with that many jobs."""
    admin, namespace = Admin(plane.kubeconfig), unique("bench-waiting")
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    maker = Maker(plane, admin, namespace, Queues(admin, namespace), trigger)
    try:
        return hold(maker, plane.kubeconfig, count, options)
    finally:
        if plane.state is None:
            maker.close(options.limit)
        admin.close()


def keeps_bounds(result: Result) -> bool:
    """Say whether our trigger did what it promises, each bound in a line of its own."""
    found = figures(result)
    return all([
        is_kept("seconds until all but one of a hundred ends are told", found["event p99 s"], LATEST_SECONDS),
        is_kept("MiB", found["MiB"], MOST_MIB),
        is_kept("ends that were not told", result.missing, 0),
    ])  # fmt: skip


def measure_all(count: int, options: argparse.Namespace) -> bool:
    """Measure every trigger with that many jobs, and print; say whether ours kept its bounds."""
    results: dict[str, Result] = {}
    misfits = {}
    for trigger in options.triggers:
        begun = time.monotonic()
        try:
            with control_plane() as plane:
                results[trigger] = measure(plane, count, trigger, options)
        except MISFITS as error:
            misfits[trigger] = f"{type(error).__name__}: {error}"
        else:
            cells = [f"{what} {value:,.2f}" for what, value in figures(results[trigger]).items()]
            took = time.monotonic() - begun
            print(f"{count:,} jobs, {trigger}: {', '.join(cells)}; took {took:.0f} s in all", flush=True)
    report(count, results, misfits)
    return OURS not in options.triggers or (OURS in results and keeps_bounds(results[OURS]))


def main() -> int:
    """Measure and print; 1 where ours exceeded a bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 1000], help="how many wait")
    parser.add_argument("--triggers", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--hold", type=float, default=60, help="seconds over which waiting is measured")
    parser.add_argument("--sample", type=int, default=100, help="how many jobs end")
    parser.add_argument("--over", type=float, default=20, help="seconds over which they end: no poll is favoured")
    parser.add_argument("--patience", type=float, default=120, help="seconds for the last events to come")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for making the jobs, and for settling")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before the end"))  # what was made is removed
    return 0 if all([measure_all(count, options) for count in options.jobs]) else 1


if __name__ == "__main__":
    sys.exit(main())
