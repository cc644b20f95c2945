"""One try of a task as its worker runs it, up to the deferral, in a process of its own that a test may kill.

`python -m tests.unit.backends.platform.one_try`: the connection is that of AIRFLOW_CONN_SIFLOW_DEFAULT. Prints the
platform's id of the task that the try waits for.
"""

from __future__ import annotations

import uuid
from types import SimpleNamespace

from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG
from airflow.sdk.bases.operator import ExecutorSafeguard

from siflow_provider.operators import PyTorchJobOperator

__all__ = ["main"]


def main() -> None:
    """Run the try."""
    with DAG("killed", schedule=None) as dag:
        operator = PyTorchJobOperator(
            task_id="train",
            image="registry.example/torch:2",
            command="true",
            compute={"type": "on_demand", "instances": ["cpu.demo-1"]},
        )
    known = {"dag_id": "killed", "task_id": "train", "run_id": "by-hand", "map_index": -1, "try_number": 1}
    instance = SimpleNamespace(id=uuid.UUID(int=1), **known)  # Airflow's own id of a try stays when it starts anew
    ExecutorSafeguard.tracker.set(operator)
    try:
        operator.execute({"ti": instance, "dag": dag, "task": operator})  # type: ignore[typeddict-item]  # what is used
    except TaskDeferred as deferral:
        print(deferral.trigger.serialize()[1]["ref"]["uid"])  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
