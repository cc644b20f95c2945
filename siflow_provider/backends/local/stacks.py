"""Where each rank stands now: py-spy's dump of every Python process below it."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import psutil

from siflow_provider.backends.local.record import Replica

__all__ = ["dump_replicas", "find_py_spy"]

_DUMP_SECONDS = 10.0
_MAX_PROCESSES = 16
_AT_ONCE = 4
_MAX_TEXT = 64 * 1024


async def dump_replicas(replicas: tuple[Replica, ...]) -> dict[str, str]:
    """Return a text per replica that still runs: its stacks, or why they can't be had."""
    alive = [replica for replica in replicas if replica.pid is not None and not replica.phase.terminal]
    if not alive:
        return {}
    program = find_py_spy()
    if program is None:
        return {replica.name: _MISSING for replica in alive}
    texts = await asyncio.gather(*(_dump_replica(program, replica) for replica in alive))
    return {replica.name: text for replica, text in zip(alive, texts, strict=True)}


_MISSING = "no stack dump: py-spy is not installed here. Install it with `pip install py-spy`."


def find_py_spy() -> str | None:
    """Return the program of this environment, else of the path; None when there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


async def _dump_replica(program: str, replica: Replica) -> str:
    pids = await asyncio.to_thread(_python_pids, replica)
    if not pids:
        return "no stack dump: no Python process runs in this replica."
    turns = asyncio.Semaphore(_AT_ONCE)
    parts = await asyncio.gather(*(_dump_process(program, pid, turns) for pid in pids[:_MAX_PROCESSES]))
    return "\n\n".join(parts)[:_MAX_TEXT]


def _python_pids(replica: Replica) -> list[int]:
    """Return the replica's Python processes; [] when its first process is not the one that we started."""
    try:
        top = psutil.Process(replica.pid)
        if replica.started is not None and abs(top.create_time() - replica.started) > 1.0:
            return []
        members = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [member.pid for member in members if _is_python(member)]


def _is_python(process: psutil.Process) -> bool:
    try:
        return Path(process.exe()).name.startswith("python")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


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
