"""The operators on a real Airflow with the embedded backend: what a user sees when all goes well, and when not."""

from __future__ import annotations

from textwrap import dedent, indent

from scripts.airflow_stack import AirflowStack

HEAD = """
from datetime import timedelta

from airflow.sdk import DAG, task

from siflow_provider.operators import PyTorchJobOperator

SMALL = {{"type": "on_demand", "instances": [{{"cpu": "100m", "memory": "64Mi"}}]}}

with DAG("{name}", schedule=None):
"""


def add(stack: AirflowStack, name: str, body: str) -> None:
    stack.add_dag(name, HEAD.format(name=name) + indent(dedent(body), "    "))


def test_deferrable_task_shows_its_lines_and_gives_its_results(stack: AirflowStack) -> None:
    add(
        stack,
        "op_success",
        '''
        PyTorchJobOperator(
            task_id="train",
            image="registry.example/train:1",
            command=(
                "echo hello from rank $RANK of $WORLD_SIZE; sleep 4; "
                """[ $RANK = 1 ] || echo '{"accuracy": 0.5}' > $SIFLOW_RESULTS"""
            ),
            compute=SMALL,
            workers=1,
            logs="all",
        )
        ''',
    )
    run = stack.trigger("op_success")
    run.ti("train").wait_state("deferred")
    assert run.wait(90) == "success", run.ti("train").log()
    log = run.ti("train").log()
    assert log.count("[master-0] hello from rank 0 of 2") == 1
    assert log.count("[worker-0] hello from rank 1 of 2") == 1
    result = run.ti("train").xcom()
    assert result["phase"] == "succeeded"
    assert result["attempts"] == 1
    assert result["results"] == {"accuracy": 0.5}
    assert run.ti("train").xcom("siflow_job")["name"] == result["name"]
