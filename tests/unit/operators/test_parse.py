"""What a DAG author sees while the DAG file is read."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, task
from airflow.sdk.definitions.mappedoperator import MappedOperator

from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
from siflow_provider.operators.arguments import AirflowArguments
from siflow_provider.operators.form import form_fields
from siflow_provider.operators.order import form_at_parse
from siflow_provider.operators.task import OPTIONS
from siflow_provider.spec import PyTorchJob, RayJob

COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
JOB: Any = {"image": "registry.example/train:1", "command": "python train.py", "compute": COMPUTE}
OPERATORS = [(PyTorchJobOperator, PyTorchJob), (RayJobOperator, RayJob)]


@pytest.mark.parametrize(("operator", "model"), OPERATORS)
def test_every_form_field_is_a_keyword_and_a_template_field(operator: type[BaseOperator], model: Any) -> None:
    keywords = inspect.signature(operator.__init__).parameters
    for name in (*form_fields(model), *OPTIONS):
        assert keywords[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert set(operator.template_fields) == {*form_fields(model), "spec"}


@pytest.mark.parametrize(("operator", "model"), OPERATORS)
def test_no_keyword_takes_a_name_that_airflow_owns(operator: type[BaseOperator], model: Any) -> None:
    names = {*form_fields(model), *OPTIONS}
    own = set(inspect.signature(BaseOperator.__init__).parameters) | set(dir(BaseOperator)) | set(dir(MappedOperator))
    assert names & own == set()
    assert set(AirflowArguments.__annotations__) >= own & set(inspect.signature(BaseOperator.__init__).parameters) - {
        "self",
        "kwargs",
    }


def test_wrong_form_fails_with_every_problem_and_the_nearest_name() -> None:
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        PyTorchJobOperator(
            task_id="train",
            image="registry.example/train:1",
            compute={"type": "on_demandd", "instances": ["x"]},
            workers=-1,
            env={"KUBERNETES_X": "1"},
            quota="never",  # type: ignore[arg-type]
        )
    text = str(caught.value)
    assert text.startswith("task 'train' has ")
    for part in ("command", "compute", "on_demand", "workers", "env.KUBERNETES_X", "quota"):
        assert part in text
    assert "pydantic" not in text
    assert caught.value.__cause__ is None


def test_wrong_file_and_wrong_catalog_are_told_beside_the_rest(tmp_path: Path) -> None:
    dag = DAG("d", schedule=None)
    dag.fileloc = str(tmp_path / "dag.py")
    with pytest.raises(SpecError) as caught:
        PyTorchJobOperator(task_id="t", spec="no.yaml", quota="never", dag=dag)  # type: ignore[arg-type]
    assert [problem.path for problem in caught.value.problems] == ["quota", "spec"]
    with pytest.raises(SpecError) as caught:
        PyTorchJobOperator(task_id="u", **JOB, workers=-1, catalog="no.yaml", dag=dag)
    assert [problem.path for problem in caught.value.problems] == ["catalog", "workers"]
    with pytest.raises(SpecError, match="spec: the spec is a list"):
        PyTorchJobOperator(task_id="v", spec=[1], dag=dag)  # type: ignore[arg-type]


def test_templates_are_let_through_and_the_rest_is_checked() -> None:
    with DAG("d", schedule=None):
        PyTorchJobOperator(
            task_id="a", **JOB, workers="{{ params.n }}", env={"LR": "{{ params.lr }}"}, ssh="{{ true }}"
        )
        with pytest.raises(SpecError, match="priority"):
            PyTorchJobOperator(task_id="b", **JOB, workers="{{ params.n }}", priority="highest")


def test_output_of_another_task_may_stand_anywhere_and_makes_it_upstream() -> None:
    with DAG("d", schedule=None):

        @task
        def given() -> Any:
            return 1

        value = given()
        nested = PyTorchJobOperator(task_id="nested", **JOB, env={"LR": value}, fault_tolerance={"max_retries": value})
        whole = PyTorchJobOperator(task_id="whole", **JOB, volumes=value)
        in_spec = PyTorchJobOperator(task_id="in_spec", spec={**JOB, "workers": value})
    for operator in (nested, whole, in_spec):
        assert operator.upstream_task_ids == {"given"}


def test_own_keywords_win_over_the_spec_and_the_spec_over_default_args() -> None:
    with DAG("d", schedule=None, default_args={"workers": 1, "priority": "low", "ssh": True}):
        operator = PyTorchJobOperator(task_id="t", spec={**JOB, "workers": 2, "priority": "high"}, workers=3)
        same = PyTorchJobOperator(task_id="same", spec={**JOB, "workers": 2}, workers=1)
    form = form_at_parse(operator)
    assert (form["workers"], form["priority"], form["ssh"]) == (3, "high", True)
    assert form_at_parse(same)["workers"] == 1


def test_own_keyword_of_a_subclass_counts_as_the_tasks() -> None:
    class Small(PyTorchJobOperator):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(workers=4, **kwargs)

    with DAG("d", schedule=None, default_args={"workers": 1}):
        operator = Small(task_id="t", spec={**JOB, "workers": 2})
    assert form_at_parse(operator)["workers"] == 4


def test_spec_may_be_a_file_beside_the_dag_file_or_a_model(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "train.yaml").write_text(
        "kind: PyTorchJob\nimage: registry.example/train:1\ncommand: python train.py\n"
        "compute: {type: on_demand, instances: [{cpu: 1, memory: 1Gi}]}\nworkers: 5\n"
    )
    dag = DAG("d", schedule=None)
    dag.fileloc = str(tmp_path / "dag.py")
    from_file = PyTorchJobOperator(task_id="file", spec="specs/train.yaml", dag=dag)
    model = PyTorchJob.model_validate({**JOB, "workers": 6})
    from_model = PyTorchJobOperator(task_id="model", spec=model, command="python other.py", dag=dag)
    assert form_at_parse(from_file)["workers"] == 5
    assert (form_at_parse(from_model)["workers"], form_at_parse(from_model)["command"]) == (6, "python other.py")
    with pytest.raises(SpecError, match=r"no file .*missing\.yaml"):
        PyTorchJobOperator(task_id="missing", spec="missing.yaml", dag=dag)
    with pytest.raises(SpecError, match="kind"):
        RayJobOperator(task_id="other", spec="specs/train.yaml", dag=dag)


def test_spec_may_be_yaml_text_with_templates(tmp_path: Path) -> None:
    text = "image: a/b:1\ncommand: 'echo {{ ds }}'\ncompute: {type: spot, instances: [gpu]}\nworkers: -2\n"
    with DAG("d", schedule=None):
        operator = PyTorchJobOperator(task_id="t", spec=text, workers=3)
        with pytest.raises(SpecError, match=r"workers \(line 4, column 1\)"):
            PyTorchJobOperator(task_id="u", spec=text)
        with pytest.raises(SpecError, match=r"spec: the spec is one value; .* name of a file ends in \.yaml"):
            PyTorchJobOperator(task_id="v", spec="specs/train")
        PyTorchJobOperator(task_id="w", spec="{{ params.spec }}")
    assert form_at_parse(operator)["command"] == "echo {{ ds }}"


def test_field_of_default_args_that_the_spec_overrides_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("image: spec/image:1\nenv: {A: spec}\n")
    defaults = {"image": "default/image:1", "env": {"B": "default"}, "workers": 2, "command": "x", "compute": COMPUTE}
    dag = DAG("d", schedule=None, default_args=defaults)
    dag.fileloc = str(tmp_path / "dag.py")
    operator = PyTorchJobOperator(task_id="t", spec="train.yaml", dag=dag)
    assert (operator.image, operator.env, operator.workers) == (None, None, 2)
    assert form_at_parse(operator)["image"] == "spec/image:1"


def test_what_a_templated_spec_overrides_and_hides_is_settled_once_it_is_rendered() -> None:
    text = "image: spec/image:1\nenv: {TOKEN: {value: canary-7391, hidden: true}}\n"
    defaults = {"image": "default/image:1", "env": {"B": "default"}, "command": "x", "compute": COMPUTE}
    with DAG("d", schedule=None, default_args=defaults):
        operator = PyTorchJobOperator(task_id="t", spec="{{ params.spec }}")
    assert operator.image == "default/image:1"
    operator.render_template_fields({"params": {"spec": text}})
    assert (operator.image, operator.env, operator.command) == (None, None, "x")
    assert isinstance(operator.spec, dict)
    assert operator.spec["image"] == "spec/image:1"
    assert "canary" not in repr(operator.spec)


def test_error_in_a_file_says_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(
        "image: registry.example/train:1\ncommand: x\ncompute: {type: spot}\nworkers: -2\n"
    )
    dag = DAG("d", schedule=None)
    dag.fileloc = str(tmp_path / "dag.py")
    with pytest.raises(SpecError, match=r"workers \(line 4, column"):
        PyTorchJobOperator(task_id="t", spec="train.yaml", dag=dag)


def test_mapped_task_is_made_without_a_check_of_its_form() -> None:
    with DAG("d", schedule=None) as dag:
        PyTorchJobOperator.partial(task_id="t", **JOB).expand(workers=[1, 2, 3])
        PyTorchJobOperator.partial(task_id="u", **JOB).expand_kwargs([{"workers": 1}, {"workers": 2}])
    assert all(isinstance(dag.get_task(name), MappedOperator) for name in ("t", "u"))


def test_text_that_is_no_readable_template_is_told_at_once() -> None:
    with DAG("d", schedule=None):
        with pytest.raises(SpecError, match=r"command: Airflow renders this text.*raw") as caught:
            PyTorchJobOperator(
                task_id="t", **{**JOB, "command": "echo ${#NAME}"}, env={"A": {"value": "{{ x", "hidden": True}}
            )
        assert "env.A" in str(caught.value)
        PyTorchJobOperator(task_id="u", **{**JOB, "command": "{% raw %}echo ${#NAME}{% endraw %}"})
