"""What a DAG author sees while the DAG file is read."""

from __future__ import annotations

import inspect
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, task
from airflow.sdk.definitions.mappedoperator import MappedOperator

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
from siflow_provider.operators.arguments import AirflowArguments
from siflow_provider.operators.form import form_fields
from siflow_provider.operators.order import form_at_parse
from siflow_provider.operators.task import OPTIONS
from siflow_provider.sensors import QuotaSensor, TrainingJobSensor
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


def test_misspelt_keyword_is_told_with_the_nearest_name_beside_all_else_and_without_its_value() -> None:
    wrong: Any = {"envv": {"X": {"value": "canary-7391", "hidden": True}}, "comand": "canary-7391"}
    wrong |= {"retires": 2, "ray": {}, "kind": "RayJob"}
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        PyTorchJobOperator(task_id="train", image="a/b:1", compute=COMPUTE, workers=-1, **wrong)
    text = str(caught.value)
    assert text.startswith("task 'train' has 7 problems:")
    assert "envv: unknown keyword; did you mean 'env'?" in text
    assert "comand: unknown keyword; did you mean 'command'?" in text
    assert "retires: unknown keyword; did you mean 'retries'?" in text
    assert "ray: is a field of RayJob only" in text
    assert "kind: is no keyword" in text
    assert "command: is required" in text
    assert "workers: -1" in text
    assert "canary" not in text
    assert caught.value.__cause__ is None


def test_keyword_that_resembles_none_is_told_with_what_there_is() -> None:
    with DAG("d", schedule=None), pytest.raises(SpecError, match=r"zzz: unknown keyword; keywords: region, cluster"):
        PyTorchJobOperator(task_id="train", **JOB, zzz=3)  # type: ignore[call-arg]


def test_keyword_of_a_subclass_is_known() -> None:
    class Mine(PyTorchJobOperator):
        def __init__(self, *, flavour: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.flavour = flavour

    with DAG("d", schedule=None):
        assert Mine(task_id="t", **JOB, flavour="mint").flavour == "mint"
        Mine.partial(task_id="u", **JOB, flavour="mint").expand(workers=[1])
        with pytest.raises(SpecError, match=r"flavor: unknown keyword; did you mean 'flavour'"):
            Mine(task_id="v", **JOB, flavour="mint", flavor="mint")


def command_for(n: int) -> str:
    return f"train {n}"


def partial_task(**wrong: Any) -> Any:
    return PyTorchJobOperator.partial(task_id="t", **JOB, **wrong)


def expanded_task(**wrong: Any) -> Any:
    return PyTorchJobOperator.partial(task_id="t", **JOB).expand(**{name: [value] for name, value in wrong.items()})


def task_of_expanded_keywords(**wrong: Any) -> Any:
    return PyTorchJobOperator.partial(task_id="t", **JOB).expand_kwargs([{"workers": 1}, wrong])


def decorated_task(**wrong: Any) -> Any:
    return pytorch_job_task(image="a/b:1", compute=COMPUTE, **wrong)(command_for)(1)


def mapped_decorated_task(**wrong: Any) -> Any:
    return pytorch_job_task(image="a/b:1", compute=COMPUTE, **wrong)(command_for).expand(n=[1])


def sensor(**wrong: Any) -> Any:
    return QuotaSensor(task_id="t", task={"kind": "PyTorchJob", **JOB}, **wrong)


def partial_sensor(**wrong: Any) -> Any:
    return QuotaSensor.partial(task_id="t", task={"kind": "PyTorchJob", **JOB}, **wrong)


def run_sensor(**wrong: Any) -> Any:
    return TrainingJobSensor(task_id="t", name="n", **wrong)


@pytest.mark.parametrize(
    "write",
    [
        partial_task, expanded_task, task_of_expanded_keywords, decorated_task, mapped_decorated_task, sensor,
        partial_sensor, run_sensor,
    ],
)  # fmt: skip
def test_misspelt_keyword_is_told_wherever_it_is_written(write: Any) -> None:
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        write(dfeerrable={"value": "canary-7391", "hidden": True})
    assert "dfeerrable: unknown keyword; did you mean 'deferrable'?" in str(caught.value)
    assert "canary" not in str(caught.value)


def plain_task(**wrong: Any) -> Any:
    return PyTorchJobOperator(task_id="t", **JOB, **wrong)


def task_made_of_a_mapped_one(**wrong: Any) -> Any:
    return PyTorchJobOperator.partial(task_id="t", **JOB, **wrong).expand(workers=[1]).unmap({"workers": 1})


@pytest.mark.parametrize("write", [plain_task, sensor, run_sensor, task_made_of_a_mapped_one])
@pytest.mark.parametrize("seconds", [0, -5])
def test_wait_without_time_and_a_deferrable_that_is_no_flag_are_refused(write: Any, seconds: int) -> None:
    wrong: Any = {"execution_timeout": timedelta(seconds=seconds), "deferrable": "yes"}
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        write(**wrong)
    timeout, flag = caught.value.problems
    assert timeout.path == "execution_timeout"
    assert "too short; more than 0; leave it out for no limit" in timeout.message
    assert str(flag) == "deferrable: 'yes' is neither True nor False"


def test_mapped_task_that_is_made_of_unknown_keywords_at_run_time_is_refused() -> None:
    with DAG("d", schedule=None):
        mapped = PyTorchJobOperator.partial(task_id="t", **JOB).expand(workers=[1])
    with pytest.raises(SpecError, match="wrokers"):
        mapped.unmap({"wrokers": 1})


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
