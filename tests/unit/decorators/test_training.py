"""Functions that return a command, as tasks."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG

from siflow_provider.decorators import pytorch_job_task, ray_job_task
from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator, RayJobOperator

COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
JOB: Any = {"image": "registry.example/train:1", "compute": COMPUTE}


def made(function: Any, decorator: Any = pytorch_job_task, **arguments: Any) -> Any:
    with DAG("d", schedule=None, default_args={"workers": 2}):
        return decorator(**{**JOB, **arguments})(function)(0.1).operator


def command_for(lr: float, **context: Any) -> str:
    return f"python train.py --lr {lr} --day {{{{ ds }}}} --run {context['run_id']}"


def context(operator: Any) -> Any:
    return {"ds": "2026-11-30", "run_id": "r1", "task": operator, "ti": None}


def test_function_gives_the_command_which_is_rendered() -> None:
    operator = made(command_for)
    assert isinstance(operator, PyTorchJobOperator)
    operator.prepare_form(context(operator))
    assert operator.command == "python train.py --lr 0.1 --day 2026-11-30 --run r1"
    assert operator.workers == 2


def test_ray_job_takes_its_own_section() -> None:
    operator = made(command_for, ray_job_task, ray={"debug": {"keep_seconds": 10}})
    assert isinstance(operator, RayJobOperator)
    assert operator.operator_name == "@task.ray_job"


@pytest.mark.parametrize("given", ["", "  ", None, 3])
def test_function_that_gives_no_command_fails_without_retry(given: Any) -> None:
    operator = made(lambda _: given, task_id="t")
    with pytest.raises(AirflowFailException, match="must return the command"):
        operator.prepare_form(context(operator))


def test_form_of_a_decorated_task_is_checked_when_the_file_is_read() -> None:
    with pytest.raises(SpecError, match="priority"):
        made(command_for, priority="highest")
