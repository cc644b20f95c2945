"""A task waits for those whose output it takes, wherever in its form that stands."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.operators.form import hide
from siflow_provider.sensors import QuotaSensor
from siflow_provider.spec import PyTorchJob

COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
JOB: Any = {"image": "registry.example/train:1", "command": "python train.py", "compute": COMPUTE}


@task
def token() -> str:
    """Fetch what another task hides."""
    return "canary-7391"


def keyword(env: Any) -> None:
    PyTorchJobOperator(task_id="t", **JOB, env=env)


def spec(env: Any) -> None:
    PyTorchJobOperator(task_id="t", spec={**JOB, "env": env})


def model(env: Any) -> None:
    PyTorchJobOperator(task_id="t", spec=PyTorchJob.model_validate({**JOB, "env": hide(env)}))


def default(env: Any) -> None:
    PyTorchJobOperator(task_id="t", **JOB, default_args={"env": env})


def partial(env: Any) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB, env=env).expand(workers=[1, 2])


def expanded(env: Any) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB).expand(env=[env])


def expanded_kwargs(env: Any) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB).expand_kwargs([{"env": env}])


def decorated(env: Any) -> None:
    pytorch_job_task(image=JOB["image"], compute=COMPUTE, env=env)(command_for)(lr=1)


def decorated_and_expanded(env: Any) -> None:
    pytorch_job_task(image=JOB["image"], compute=COMPUTE, env=env)(command_for).expand(lr=[1, 2])


def sensor(env: Any) -> None:
    QuotaSensor(task_id="t", task={"kind": "PyTorchJob", **JOB, "env": env})


def sensor_of_an_operator(env: Any) -> None:
    QuotaSensor(task_id="t", task=PyTorchJobOperator(task_id="train", **JOB, env=env))


def command_for(lr: float) -> str:
    return f"python train.py --lr {lr}"


@pytest.mark.parametrize(
    "write",
    [
        keyword, spec, model, default, partial, expanded, expanded_kwargs, decorated, decorated_and_expanded, sensor,
        sensor_of_an_operator,
    ],
)  # fmt: skip
@pytest.mark.parametrize("hidden", [True, False])
def test_task_waits_for_the_output_that_its_form_holds(write: Any, hidden: bool) -> None:
    with DAG("d", schedule=None) as dag:
        output = token()
        write({"TOKEN": {"value": output, "hidden": True} if hidden else output})
    names = dag.task_dict.keys() - {"token", "train"}
    assert [dag.task_dict[name].upstream_task_ids for name in names] == [{"token"}]
