"""What a DAG author is told about keywords that do not exist, and about waits that can't be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.errors import SpecError
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.sensors import QuotaSensor, TrainingJobSensor

COMPUTE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
JOB: Any = {"image": "registry.example/train:1", "command": "python train.py", "compute": COMPUTE}


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


@pytest.mark.parametrize("write", [plain_task, task_made_of_a_mapped_one, decorated_task])
def test_option_that_is_no_choice_is_refused_before_anything_is_submitted(write: Any) -> None:
    wrong: Any = {"on_kill_action": "detatch", "quota": None, "logs": None}
    with DAG("d", schedule=None), pytest.raises(SpecError) as caught:
        write(**wrong)
    assert {problem.path for problem in caught.value.problems} == {"on_kill_action", "quota", "logs"}


def test_sensor_of_a_run_refuses_logs_that_are_no_choice() -> None:
    with DAG("d", schedule=None), pytest.raises(SpecError, match="logs: 'mastr' is none of master, all, none"):
        run_sensor(logs="mastr")
