"""A form, the modes of a sensor, and how a test asks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from siflow_provider.sensors import QuotaSensor
from siflow_provider.triggers.quota import QuotaTrigger
from tests.unit.sensors.airflow_errors import TaskDeferred

CANARY = "c4n4ry-in-the-form"
FORM: dict[str, Any] = {
    "kind": "PyTorchJob",
    "image": "registry.example/x:1",
    "command": f"train --token {CANARY}",
    "env": {"TOKEN": {"value": CANARY, "hidden": True}},
    "compute": {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]},
}
MODES: dict[str, dict[str, Any]] = {
    "poke": {"deferrable": False},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}


def sensor(task: Any = None, **options: Any) -> QuotaSensor:
    with DAG("d", schedule=None):
        return QuotaSensor(task_id="quota", **{"task": FORM if task is None else task, "poke_interval": 0, **options})


def run(which: QuotaSensor, **context: Any) -> Any:
    """Render and execute as a worker does; a deferred sensor ends as its trigger's event says."""
    instance = SimpleNamespace(
        dag_id="d", task_id="quota", run_id="r", map_index=-1, try_number=1, get_first_reschedule_date=long_ago
    )
    full: Any = {"ti": instance, "dag": which.dag, "task": which, **context}
    which.render_template_fields(full)
    return which.execute(full)


def long_ago(_: Any) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC)


async def resumed(which: QuotaSensor) -> Any:
    with pytest.raises(TaskDeferred) as deferred:
        run(which)
    path, kwargs = deferred.value.trigger.serialize()
    assert path == f"{QuotaTrigger.__module__}.{QuotaTrigger.__name__}"
    trigger = QuotaTrigger(**json.loads(json.dumps(kwargs)))
    event = await anext(trigger.run())
    return which.resume_execution(deferred.value.method_name, {"event": event.payload}, {})
