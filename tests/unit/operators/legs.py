"""Short words for what the tests do with the legs of a try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef, Status
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.triggers.room import RoomEvent
from siflow_provider.triggers.run import RunEvent, RunTrigger

Maker = Callable[..., tuple[PyTorchJobOperator, dict[str, Any]]]


def execute(operator: PyTorchJobOperator, context: dict[str, Any]) -> Any:
    """Call `execute` as Airflow's task runner does, its safeguard told that this is no nested call."""
    from airflow.sdk.bases.operator import ExecutorSafeguard

    token = ExecutorSafeguard.tracker.set(operator)
    try:
        return operator.execute(context)  # type: ignore[arg-type]
    finally:
        ExecutorSafeguard.tracker.reset(token)


def deferred(operator: PyTorchJobOperator, context: dict[str, Any]) -> RunTrigger:
    with pytest.raises(TaskDeferred) as caught:
        execute(operator, context)
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    return trigger


def resume(operator: Any, context: Any, event: RunEvent | RoomEvent, **kwargs: Any) -> Any:
    return operator.resume(context, event.model_dump(mode="json"), **kwargs)


def with_backend(home: Path, ask: Callable[[Any], Any]) -> Any:
    async def answer() -> Any:
        async with make_backend(Settings(backend="local", state_dir=str(home))) as backend:
            return await ask(backend)

    return asyncio.run(answer())


def statuses(home: Path) -> list[Status]:
    return list(with_backend(home, lambda backend: backend.runs()))


def wait_ended(home: Path, ref: JobRef) -> None:
    async def watch(backend: Any) -> None:
        async for status in backend.watch(ref):
            if status.phase.terminal:
                return

    with_backend(home, watch)


def delete(home: Path, ref: JobRef) -> None:
    with_backend(home, lambda backend: backend.delete(ref))
