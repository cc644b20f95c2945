"""Forms in DAGs that render templates to Python objects, and in those that don't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.operators.order import order_of
from siflow_provider.operators.templates import is_plain_text
from siflow_provider.spec.resolve import ResolvedTask
from siflow_provider.triggers.run import Carried
from tests.unit.operators.conftest import COMPUTE, Instance

PUSHED = {"retries": 2, "size": {"cpu": 2, "memory": "64Mi"}, "token": "0.50000"}
PARAMS = {"n": 5, "on": True, "nothing": None, "lr": 0.1, "name": "bert", "token": "1_000_000"}
ENV: dict[str, Any] = {
    "EPOCHS": 3,
    "FLAG": True,
    "RATE": 0.5,
    "Y": "{{ params.n }}",
    "LR": "{{ params.lr }}",
    "NAME": "{{ params.name }}-{{ params.n }}",
    "VERSION": "1.10",
    "EMPTY": "",
    "LIST": "[1, 2]",
    "TOKEN": {"value": "{{ params.token }}", "hidden": True},
    "PIN": {"value": "0.500", "hidden": True},
}
TEXTS = {
    "EPOCHS": "3",
    "FLAG": "true",
    "RATE": "0.5",
    "Y": "5",
    "LR": "0.1",
    "NAME": "bert-5",
    "VERSION": "1.10",
    "EMPTY": "",
    "LIST": "[1, 2]",
}


@pytest.fixture(params=[True, False], ids=["native", "text"])
def native(request: pytest.FixtureRequest, backend_home: Path) -> bool:
    return bool(request.param)


def rendered(native: bool, jinja: dict[str, Any] | None = None, **arguments: Any) -> ResolvedTask:
    """Return the task as a worker would submit it."""

    class Pushing(Instance):
        def xcom_pull(self, *, task_ids: str, **_: Any) -> Any:
            return PUSHED[task_ids]

    dag = DAG("unit", schedule=None, render_template_as_native_obj=native, jinja_environment_kwargs=jinja)
    before = {name: PyTorchJobOperator(task_id=name, dag=dag, **job()) for name in PUSHED}
    given = {name: value(before) if callable(value) else value for name, value in arguments.items()}
    operator = PyTorchJobOperator(task_id="train", dag=dag, **{**job(), **given})
    instance = Pushing(id="ti", dag_id="unit", task_id="train", run_id="r1", map_index=-1, try_number=1, xcoms={})
    context: Any = {"ti": instance, "dag": dag, "task": operator, "params": PARAMS, "expanded_ti_count": None}
    operator.render_template_fields(context)
    return order_of(operator, context, Carried(prefix="")).task


def job() -> dict[str, Any]:
    return {"image": "registry.example/train:1", "command": "true", "compute": COMPUTE}


def test_env_reaches_the_job_as_the_same_texts_with_and_without_native_rendering(native: bool) -> None:
    task = rendered(native, env=ENV)
    assert {name: task.env[name] for name in TEXTS} == TEXTS
    assert {name: value.reveal() for name, value in task.hidden.items()} == {"TOKEN": "1_000_000", "PIN": "0.500"}


def test_templates_and_outputs_of_tasks_inside_the_form_are_its_numbers(native: bool) -> None:
    task = rendered(
        native,
        workers="{{ params.n }}",
        compute=lambda before: {
            "type": "on_demand", "instances": [before["size"].output], "units_per_replica": "{{ params.n - 4 }}",
        },
        fault_tolerance=lambda before: {"max_retries": before["retries"].output},
        visible_in_group="{{ params.on }}",
        env=lambda before: {"N": before["retries"].output, "T": {"value": before["token"].output, "hidden": True}},
    )  # fmt: skip
    assert (task.task.workers, task.task.visible_in_group) == (5, True)
    assert task.task.fault_tolerance is not None
    assert task.task.fault_tolerance.max_retries == 2
    assert [flavor.resources.amounts["cpu"] for flavor in task.flavors] == [2]
    assert task.env["N"] == "2"
    assert task.hidden["T"].reveal() == "0.50000"


@pytest.mark.parametrize(
    ("jinja", "template", "text"),
    [
        ({}, "{{ params.token -}}", "1_000_000"),
        ({"trim_blocks": True}, "{% if params.on %}0.50{% endif %}", "0.50"),
        ({"newline_sequence": "\r\n"}, "{{ params.token }}", "1_000_000"),
        ({}, "{{ params.token }} # of today", "1_000_000 # of today"),
    ],
    ids=["white space", "trim_blocks", "newline_sequence", "comment"],
)
def test_hidden_templates_give_their_texts_however_the_dag_treats_white_space(
    native: bool, jinja: dict[str, Any], template: str, text: str
) -> None:
    task = rendered(native, jinja, env={"T": {"value": template, "hidden": True}})
    assert task.hidden["T"].reveal() == text


def test_texts_with_line_ends_of_windows_stay_texts() -> None:
    jinja = DAG("unit", schedule=None, render_template_as_native_obj=True).get_template_env()
    assert is_plain_text("1,\r\n2\r\n", jinja)


def test_none_in_env_is_refused_by_its_name(native: bool) -> None:
    with pytest.raises(SpecError, match=r"env\.X: null is no value"):
        rendered(native, env={"X": None, "Y": 1})


def test_template_that_gives_none_is_refused_by_its_name_where_it_is_no_text(native: bool) -> None:
    env = {"X": "{{ params.nothing }}"}
    if native:
        with pytest.raises(SpecError, match=r"env\.X: null is no value"):
            rendered(native, env=env)
    else:
        assert rendered(native, env=env).env["X"] == "None"
