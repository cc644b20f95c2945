"""A hidden value reaches the training and nothing else: not the database, a log, an XCom, an argument list."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from scripts.airflow_stack import wait_until
from tests.e2e.training import add_training_dag

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import Run

CANARY = "canary-9f41c7"
BODY = """
from pathlib import Path

# read from a file: Airflow stores the text of every DAG file
HIDDEN = {"TOKEN": {"value": Path("TOKEN_FILE").read_text(), "hidden": True}}
SHOW = "echo token is $TOKEN; echo length $(printf %s $TOKEN | wc -c); sleep 8; echo again $TOKEN >&2; exit 1"

PyTorchJobOperator(task_id="deferred", command=SHOW, env=HIDDEN, **JOB)
PyTorchJobOperator(task_id="waits", command=SHOW, env=HIDDEN, deferrable=False, **JOB)
PyTorchJobOperator.partial(task_id="mapped", command=SHOW, **JOB).expand(env=[HIDDEN])
PyTorchJobOperator(task_id="from_spec", spec={"env": HIDDEN, "command": SHOW, **JOB})
"""


@pytest.fixture(scope="module")
def shown(stack: AirflowStack) -> Run:
    """Return a DAG run whose trainings have printed the hidden value, and print it again before they end."""
    token = stack.settings.home / "token"
    token.write_text(CANARY)
    add_training_dag(stack, "op_hidden", BODY.replace("TOKEN_FILE", str(token)))
    run = stack.trigger("op_hidden")
    run.ti("deferred").wait_log("[master-0] length 13")
    return run


def test_hidden_value_that_the_training_prints_is_found_nowhere(stack: AirflowStack, shown: Run) -> None:
    assert CANARY not in stack.db_dump()  # triggers, next_kwargs, rendered fields, the serialized DAG
    assert not [each for each in stack.processes() if CANARY in " ".join(arguments(each))]
    assert shown.wait(120) == "failed"
    assert CANARY not in stack.db_dump()
    for task in shown.tis():
        log = task.log()
        assert "token is ***" in log, log
        assert "length 13" in log
        assert CANARY not in log
        assert task.rendered["spec" if task.task_id == "from_spec" else "env"]
    files = [path for path in stack.log_folder.rglob("*") if path.is_file()]
    found = [path for path in files if CANARY in path.read_text(errors="replace")]
    assert found == []


def arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_log_of_the_triggerer_and_of_other_components_holds_no_hidden_value(stack: AirflowStack, shown: Run) -> None:
    assert shown.wait(120) == "failed"
    names = ["scheduler", "dag-processor", "api-server", *stack.triggerers]
    logs = {name: wait_until(partial(stack.component_log, name), timeout=10, what=f"{name} wrote") for name in names}
    assert [name for name in names if CANARY in logs[name]] == []
    assert any("op_hidden" in log for log in logs.values())
