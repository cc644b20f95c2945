"""Where each rank stands now: py-spy's dump of the training's Python processes below it.

A Ray node has some twenty Python processes of Ray's own; they say nothing about the training and are left out.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from siflow_provider.backends.local.record import Replica

__all__ = ["dump_replicas", "find_py_spy"]

_DUMP_SECONDS = 10.0
_MAX_PROCESSES = 16
_AT_ONCE = 4
_MAX_TEXT = 64 * 1024
_RAY_TITLES = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::JobSupervisor", "ray-dashboard")
_RAY_PROGRAMS = ("/ray/_private/", "/ray/autoscaler/", "/ray/dashboard/", "/backends/local/ray_node.py")
_RAY_WORKER = "/ray/_private/workers/default_worker.py"
_DASHBOARD = "/ray/dashboard/dashboard.py"
_PROGRAM_WORDS = 4
"""Interpreter, its options and the program: where a command line names what runs."""


async def dump_replicas(replicas: tuple[Replica, ...]) -> dict[str, str]:
    """Return a text per replica that still runs: its stacks, or why they can't be had."""
    alive = [replica for replica in replicas if replica.pid is not None and not replica.phase.terminal]
    if not alive:
        return {}
    program = find_py_spy()
    if program is None:
        return {replica.name: _MISSING for replica in alive}
    tops = {replica.pid for replica in alive}
    texts = await asyncio.gather(*(_dump_replica(program, replica, tops - {replica.pid}) for replica in alive))
    return {replica.name: text for replica, text in zip(alive, texts, strict=True)}


_MISSING = "no stack dump: py-spy is not installed here. Install it with `pip install py-spy`."


def find_py_spy() -> str | None:
    """Return the program of this environment, else of the path; None when there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


async def _dump_replica(program: str, replica: Replica, others: set[int | None]) -> str:
    pids = await asyncio.to_thread(_python_pids, replica, others)
    if not pids:
        return "no stack dump: no Python process of the training runs in this replica."
    turns = asyncio.Semaphore(_AT_ONCE)
    parts = await asyncio.gather(*(_dump_process(program, pid, turns) for pid in pids[:_MAX_PROCESSES]))
    if len(pids) > _MAX_PROCESSES:
        parts.insert(0, f"the first {_MAX_PROCESSES} of {len(pids)} Python processes:")
    return "\n\n".join(parts)[:_MAX_TEXT]


def _python_pids(replica: Replica, others: set[int | None]) -> list[int]:
    """Return the training's Python processes of the replica; [] when its first process is not the one that we started.

    Args:
        replica: whose.
        others: first processes of other replicas: a Ray job's driver runs below the head.
    """
    try:
        top = psutil.Process(replica.pid)
        if replica.started is not None and abs(top.create_time() - replica.started) > 1.0:
            return []
        members = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    found: list[int] = []
    left_out: set[int] = set()
    for member in members:  # each behind its parent
        try:
            words = member.cmdline()[:_PROGRAM_WORDS]
            if member.pid in others or member.ppid() in left_out or any(word.endswith(_DASHBOARD) for word in words):
                left_out.add(member.pid)
            elif Path(member.exe()).name.startswith("python") and not _is_of_ray(words):
                found.append(member.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _is_of_ray(words: Sequence[str]) -> bool:
    """Say whether a command line is of Ray's own services, and not of a worker that runs the user's code."""
    if any(word.endswith(_RAY_WORKER) for word in words):
        return False
    titled = bool(words) and words[0].startswith(_RAY_TITLES)
    return titled or any(word.endswith(".py") and any(part in word for part in _RAY_PROGRAMS) for word in words)


async def _dump_process(program: str, pid: int, turns: asyncio.Semaphore) -> str:
    async with turns:
        process = await asyncio.create_subprocess_exec(
            program, "dump", "--pid", str(pid), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _DUMP_SECONDS)
        except TimeoutError:
            return f"no stack dump of process {pid}: py-spy did not answer within {_DUMP_SECONDS:g} s."
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = output.decode("utf-8", "replace").strip()
    if process.returncode == 0:
        return text
    return f"no stack dump of process {pid}: {text} (py-spy needs the right to trace: ptrace_scope 0, or root)"
