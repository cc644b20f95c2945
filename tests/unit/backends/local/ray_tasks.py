"""Resolved RayJobs and the ways to look at their clusters, for the tests of the embedded backend."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.record import RunState
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, LogCursor, Phase, Status
from siflow_provider.spec.compute import InPlaceInstance, OnDemand
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.ray import RaySection
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import RayJob

WAIT_SECONDS = 120.0


def ray_task(
    command: str,
    *,
    workers: int = 0,
    cpu: str = "1",
    head_cpu: str | None = None,
    hidden: Mapping[str, str] | None = None,
    mounts: tuple[Mount, ...] = (),
    ray: Mapping[str, Any] | None = None,
) -> ResolvedTask:
    """Return a RayJob of small nodes."""
    compute = OnDemand(type="on_demand", instances=(InPlaceInstance(cpu=cpu, memory="300Mi"),))
    section = RaySection.model_validate(dict(ray or {}))
    image = "registry.example/ai/ray:1"
    form = RayJob(image=image, command=command, workers=workers, compute=compute, ray=section)
    flavor = Flavor(instance="in-place", resources=Resources.of({"cpu": cpu, "memory": "300Mi"}))
    head = (
        Flavor(instance="in-place", resources=Resources.of({"cpu": head_cpu, "memory": "400Mi"})) if head_cpu else None
    )
    return ResolvedTask(
        task=form,
        image=image,
        env={"PLAIN": "seen"},
        hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
        flavors=(flavor,),
        head=head,
        mounts=mounts,
    )


async def submit(backend: LocalBackend, task: ResolvedTask, identity: Identity | None = None) -> JobRef:
    """Submit the task for a run that nobody else has."""
    context = RenderContext(identity=identity or Identity.random(), user_name="ada")
    return await backend.submit(backend.render(task, context))


async def wait_for(backend: LocalBackend, ref: JobRef, *phases: Phase) -> Status:
    """Return the first snapshot in one of the phases, or the last one."""
    last: Status | None = None
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            async for status in backend.watch(ref):
                last = status
                if status.phase in phases:
                    break
    except TimeoutError:
        pytest.fail(f"none of {phases} in {WAIT_SECONDS:g} s: {last}")
    assert last is not None
    return last


async def wait_until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.1)


async def lines_of(backend: LocalBackend, ref: JobRef, replica: str = "submitter-0") -> list[str]:
    """Return all lines of a replica's log."""
    return [line.text async for line in backend.logs(ref, (replica,), LogCursor())]


def state_of(state_dir: Path, ref: JobRef) -> RunState:
    """Return what the supervisor wrote last."""
    return RunState.model_validate_json((state_dir / "runs" / ref.name / "state.json").read_text(encoding="utf-8"))


def temp_dir_of(state_dir: Path, ref: JobRef) -> Path:
    """Return where the run's cluster keeps its session."""
    memory = state_dir / "runs" / ref.name / "work" / "ray-temp-dir.json"
    return Path(json.loads(memory.read_text(encoding="utf-8"))["temp_dir"])


def family(state_dir: Path, ref: JobRef) -> list[psutil.Process]:
    """Return the supervisor and every process below it."""
    supervisor = psutil.Process(state_of(state_dir, ref).supervisor)
    return [supervisor, *supervisor.children(recursive=True)]


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run."""
    return [process for process in processes if process.is_running() and _status(process) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def ask(url: str, token: str | None) -> tuple[int, str]:
    """Return HTTP status and text of a GET."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
