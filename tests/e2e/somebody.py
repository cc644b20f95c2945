"""A run that no Airflow task owns, on the embedded backend of a stack, and what a test does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from scripts.airflow_stack import AirflowStack
from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext, TrainingBackend
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import resolve

T = TypeVar("T")


def with_backend(stack: AirflowStack, use: Callable[[TrainingBackend], Coroutine[Any, Any, T]]) -> T:
    """Open the stack's backend and use it."""

    async def opened() -> T:
        settings = Settings(backend="local", state_dir=str(Path(stack.settings.home) / "siflow"))
        async with make_backend(settings) as backend:
            return await use(backend)

    return asyncio.run(opened())


def start(stack: AirflowStack, command: str, *, cpu: str = "100m", identity: Identity | None = None) -> JobRef:
    """Start a run of one replica and wait until it runs or has ended; without an identity it is nobody else's."""
    compute = {"type": "on_demand", "instances": [{"cpu": cpu, "memory": "64Mi"}]}
    form = {"kind": "PyTorchJob", "image": "registry.example/x:1", "command": command, "compute": compute}
    task = resolve(load(form))
    context = RenderContext(identity=identity or Identity.random("somebody"))

    async def use(backend: TrainingBackend) -> JobRef:
        ref = await backend.submit(backend.render(task, context))
        async for status in backend.watch(ref):
            if status.phase is Phase.RUNNING or status.phase.terminal:
                break
        return ref

    return with_backend(stack, use)


def status_of(stack: AirflowStack, ref: JobRef) -> Status:
    """Return the run's status."""
    return with_backend(stack, lambda backend: backend.status(ref))


def stop(stack: AirflowStack, ref: JobRef) -> None:
    """Stop the run, as `siflow-provider stop` does."""
    with_backend(stack, lambda backend: backend.stop(ref, by="somebody"))


def remove(stack: AirflowStack, ref: JobRef) -> None:
    """Stop and remove the run."""
    with suppress(FileNotFoundError):
        with_backend(stack, lambda backend: backend.delete(ref))
