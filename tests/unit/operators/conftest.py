"""Operators run in this very process: a rendered task, a context as a worker has it, the embedded backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from siflow_provider.operators import PyTorchJobOperator

Made = tuple[PyTorchJobOperator, dict[str, Any]]
COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": "100m", "memory": "64Mi"}]}


def keep(*_: Any) -> None:
    """Keep nothing of what a task keeps in XComs."""


class Instance(SimpleNamespace):
    """A task instance that keeps its XComs."""

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


@pytest.fixture
def backend_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the state folder of the embedded backend, which the connection siflow_default names."""
    home = tmp_path / "runs"
    extra = f'{{"backend": "local", "state_dir": "{home}"}}'
    monkeypatch.setenv("AIRFLOW_CONN_SIFLOW_DEFAULT", f'{{"conn_type": "siflow", "extra": {extra}}}')
    yield home
    assert_nothing_runs(home)


def assert_nothing_runs(home: Path) -> None:
    import asyncio

    from siflow_provider.backends import make_backend
    from siflow_provider.backends.settings import Settings

    async def end_all() -> list[str]:
        async with make_backend(Settings(backend="local", state_dir=str(home))) as backend:
            live = [status for status in await backend.runs() if not status.phase.terminal]
            for status in live:
                await backend.delete(status.ref)
            return [status.ref.name for status in live]

    assert asyncio.run(end_all()) == []


@pytest.fixture
def make(backend_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """Return a maker of an operator and its context, for one try."""

    def made(command: str, *, try_number: int = 1, instance_id: str = "ti-1", **arguments: Any) -> Made:
        monkeypatch.setattr("siflow_provider.triggers.store.Store._put", keep)
        monkeypatch.setattr("siflow_provider.triggers.store.Store._get", lambda *_: None)
        dag = DAG("unit", schedule=None)
        operator = PyTorchJobOperator(
            task_id="train", image="registry.example/train:1", command=command, dag=dag,
            **{"compute": COMPUTE, **arguments},
        )  # fmt: skip
        instance = Instance(
            id=f"{instance_id}-{try_number}", dag_id="unit", task_id="train", run_id="r1", map_index=-1,
            try_number=try_number, xcoms={},
        )  # fmt: skip
        return operator, {"ti": instance, "dag": dag, "task": operator}

    return made
