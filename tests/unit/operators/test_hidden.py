"""A hidden value of a DAG file is in nothing that Airflow stores."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.operators.form import hide
from siflow_provider.sensors import QuotaSensor
from siflow_provider.spec import PyTorchJob
from siflow_provider.spec.hidden import Hidden

COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
JOB: Any = {"image": "registry.example/train:1", "command": "python train.py", "compute": COMPUTE}
JOB_OF_A_FUNCTION: Any = {"image": "registry.example/train:1", "compute": COMPUTE}
ENV: Any = {"TOKEN": {"value": "canary-7391", "hidden": True}, "LR": 1}


def own_keyword(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", **JOB, env=ENV, dag=dag)


def spec_mapping(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", spec={**JOB, "env": ENV}, dag=dag)


TEXT = """
image: registry.example/train:1
command: python train.py --day {{ ds }}
compute: {type: on_demand, instances: [{cpu: 1, memory: 1Gi}]}
env:
  TOKEN: {value: "canary-7391{{ params.more }}", hidden: true}
  LR: 1
"""


def spec_text(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", spec=TEXT, dag=dag)


def spec_json_text(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", spec=json.dumps({**JOB, "env": ENV}), dag=dag)


def partial_spec_text(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", spec=TEXT, dag=dag).expand(workers=[1])


def expanded_spec_text(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", dag=dag).expand(spec=[TEXT])


def expanded_kwargs_with_spec_text(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", dag=dag).expand_kwargs([{"spec": TEXT}])


def sensor_text(dag: DAG) -> None:
    QuotaSensor(task_id="t", task="kind: PyTorchJob" + TEXT, dag=dag)


def spec_model(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", spec=PyTorchJob.model_validate({**JOB, "env": hide(ENV)}), dag=dag)


def hidden_object(dag: DAG) -> None:
    PyTorchJobOperator(task_id="t", **JOB, env={"TOKEN": Hidden("canary-7391")}, dag=dag)


def flag_as_text(dag: DAG) -> None:
    env: Any = {"TOKEN": {"value": "canary-7391", "hidden": "True"}}
    PyTorchJobOperator(task_id="t", **JOB, env=env, dag=dag)


def mapping_that_is_no_dict(dag: DAG) -> None:
    env: Any = MappingProxyType({"TOKEN": MappingProxyType({"value": "canary-7391", "hidden": True})})
    PyTorchJobOperator(task_id="t", **JOB, env=env, dag=dag)


def wrong_hidden_value_of_a_mapped_task(dag: DAG) -> None:
    env: Any = {"TOKEN": {"value": "canary-7391", "hidden": 1}, "KEY": {"value": "canary-7391", "hidden": True, "x": 1}}
    env |= {"A": {"value": "canary-7391", "hiden": True}, "B": {"valeu": "canary-7391", "Hidden": "yes"}}
    PyTorchJobOperator.partial(task_id="t", **JOB, env=env, dag=dag).expand(workers=[1, 2])


def partial_keyword(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB, env=ENV, dag=dag).expand(workers=[1, 2])


def expanded_keyword(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB, dag=dag).expand(env=[ENV, ENV])


def expanded_kwargs(dag: DAG) -> None:
    PyTorchJobOperator.partial(task_id="t", **JOB, dag=dag).expand_kwargs([{"env": ENV}])


def decorated(dag: DAG) -> None:
    made = pytorch_job_task(image=JOB["image"], compute=COMPUTE, env=ENV, dag=dag)
    made(command_for)(lr=1)


def decorated_and_expanded(dag: DAG) -> None:
    made = pytorch_job_task(image=JOB["image"], compute=COMPUTE, env=ENV, dag=dag)
    made(command_for).expand(lr=[1, 2])


def command_for(lr: float) -> str:
    return f"python train.py --lr {lr}"


def serialized(dag: DAG) -> str:
    # imported here: a second, and only where a DAG is serialized
    from airflow.serialization import serialized_objects

    # Airflow before 3.3 has one class for both ways
    made: Any = next(
        getattr(serialized_objects, name)
        for name in ("DagSerialization", "SerializedDAG")
        if hasattr(getattr(serialized_objects, name, None), "to_dict")
    )
    return json.dumps(made.to_dict(dag), default=str)


@pytest.mark.parametrize(
    "write",
    [
        own_keyword, spec_mapping, spec_model, hidden_object, flag_as_text, mapping_that_is_no_dict,
        wrong_hidden_value_of_a_mapped_task, partial_keyword, expanded_keyword, expanded_kwargs, decorated,
        decorated_and_expanded, spec_text, spec_json_text, partial_spec_text, expanded_spec_text,
        expanded_kwargs_with_spec_text, sensor_text,
    ],
)  # fmt: skip
def test_serialized_dag_holds_no_hidden_value(write: Any) -> None:
    dag = DAG("d", schedule=None)
    write(dag)
    text = serialized(dag)
    assert "TOKEN" in text
    assert "canary" not in text
    assert "canary" not in repr(dag.tasks[0])


def plain_task() -> None:
    PyTorchJobOperator(task_id="t")


def mapped_task() -> None:
    PyTorchJobOperator.partial(task_id="t").expand(workers=[1])


def decorated_task() -> None:
    pytorch_job_task()(command_for)(lr=1)


def decorated_mapped_task() -> None:
    pytorch_job_task()(command_for).expand(lr=[1])


def sensor() -> None:
    QuotaSensor(task_id="t", task={"kind": "PyTorchJob", **JOB})


def sensor_of_the_defaults() -> None:
    QuotaSensor(task_id="t")  # type: ignore[call-arg] # `task` is in default_args


def mapped_sensor() -> None:
    QuotaSensor.partial(task_id="t", task={"kind": "PyTorchJob", **JOB}).expand(conn_id=["a"])


@pytest.mark.parametrize(
    "defaults",
    [
        {**JOB, "env": ENV},
        {"spec": {**JOB, "env": ENV}},
        {**JOB, "envv": ENV},
        {"spec": TEXT},
    ],
    ids=["env", "spec", "misspelt", "text"],
)
@pytest.mark.parametrize(
    "write",
    [
        plain_task, mapped_task, decorated_task, decorated_mapped_task, sensor, sensor_of_the_defaults, mapped_sensor,
    ],
)  # fmt: skip
def test_default_args_of_the_dag_hold_no_hidden_value(write: Any, defaults: dict[str, Any]) -> None:
    task = {"kind": "PyTorchJob", **JOB, "env": ENV}
    with DAG("d", schedule=None, default_args={**defaults, "task": task}) as dag:
        write()
    text = serialized(dag)
    assert "TOKEN" in text
    assert "canary" not in text


@pytest.mark.parametrize("text", [TEXT + "  - x", "{% if a %}" + TEXT + "{% endif %}", '{"env": {"A": "canary-7391"'])
@pytest.mark.parametrize("write", [PyTorchJobOperator, PyTorchJobOperator.partial])
def test_text_that_is_no_yaml_is_refused_and_not_repeated(write: Any, text: str) -> None:
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        write(task_id="t", spec=text)
    assert "not valid YAML" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_overridden_decorated_task_holds_no_hidden_value() -> None:
    with DAG("d", schedule=None) as dag:
        pytorch_job_task(**JOB_OF_A_FUNCTION)(command_for).override(task_id="o", env=ENV).expand(lr=[1])
    text = serialized(dag)
    assert "TOKEN" in text
    assert "canary" not in text


def test_default_args_without_a_hidden_value_stay_the_same_objects() -> None:
    params: dict[str, Any] = {"a": {"value": 1, "hidden": False}}
    with DAG("d", schedule=None, default_args={"executor_config": params}) as dag:
        PyTorchJobOperator(task_id="t", **JOB)
    assert dag.default_args["executor_config"] is params


def test_value_that_is_not_hidden_is_left_as_it_is() -> None:
    plain = {"A": {"value": "x", "hidden": False}, "B": {"value": "y"}, "C": ({"value": 1, "hidden": "false"},)}
    assert hide(plain) == plain


def test_params_of_airflow_stay_what_they_are() -> None:
    params = ParamsDict({"lr": Param(0.1, type="number")})
    assert hide(params) is params
