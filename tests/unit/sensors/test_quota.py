"""QuotaSensor: what it is asked about, and what it keeps to itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.errors import Reason, SpecError, UsageError
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.sensors import QuotaSensor
from siflow_provider.spec import PyTorchJob, load
from siflow_provider.triggers.quota import QuotaTrigger
from tests.unit.sensors.airflow_errors import TaskDeferred
from tests.unit.sensors.asking import CANARY, FORM, MODES, run, sensor
from tests.unit.sensors.scripted import SHORT, Scripted, instance, report

pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be called outside of the Task Runner")


@pytest.mark.parametrize("mode", MODES)
def test_a_task_that_fits_passes_at_the_first_look(mode: str) -> None:
    Scripted.reset(report())
    assert run(sensor(**MODES[mode])) == {"instance": "in-place", "queue": "od-h100"}


def test_the_whole_task_is_asked_about_and_not_one_replica() -> None:
    Scripted.reset(report())
    run(sensor({**FORM, "workers": 3}))
    assert Scripted.asked[0].replicas == 4


@pytest.mark.parametrize("case", ["model", "text", "file", "path", "operator", "decorated", "templated"])
def test_every_way_to_name_a_task_asks_the_same(case: str, tmp_path: Path) -> None:
    Scripted.reset(report())
    (tmp_path / "train.json").write_text(json.dumps({**FORM, "workers": 1}))
    with DAG("d", schedule=None):
        tasks: dict[str, Any] = {
            "model": load({**FORM, "workers": 1}),
            "text": json.dumps({**FORM, "workers": 1}),
            "file": str(tmp_path / "train.json"),
            "path": tmp_path / "train.json",
            "operator": PyTorchJobOperator(task_id="a", spec=FORM, workers="{{ 1 }}"),
            "decorated": decorated_operator(),
            "templated": {**FORM, "workers": "{{ params.workers }}"},
        }
        which = QuotaSensor(task_id="quota", task=tasks[case])
    run(which, params={"workers": 1})
    assert [task.replicas for task in Scripted.asked] == [2]
    assert Scripted.asked[0].flavors[0].resources.rendered() == {"cpu": "1", "memory": "1Gi"}


def decorated_operator() -> Any:
    def train() -> str:
        raise AssertionError("asking for quota must not run the user's function")

    made: Any = pytorch_job_task(train, image="x:1", compute=FORM["compute"], workers=1)()
    return made.operator


def test_connection_and_catalog_follow_the_operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Scripted.reset(report(available=SHORT), report())
    path = tmp_path / "catalog.yaml"
    path.write_text(json.dumps(instance()))
    monkeypatch.setenv("AIRFLOW_CONN_LAB", "siflow:///?region=r")
    compute: Any = {"type": "on_demand", "instances": ["gpu.h100", "gpu.a100"]}
    with DAG("d", schedule=None):
        train = PyTorchJobOperator(
            task_id="t", image="x:1", command="true", compute=compute, conn_id="lab", catalog=str(path)
        )
        which = QuotaSensor(task_id="quota", task=train)
    assert which.conn_id == "lab"
    # the first listed instance is full, the second one has room
    assert run(which)["instance"] == "gpu.a100"
    assert [task.flavors[0].queue for task in Scripted.asked] == ["od-h100", "od-a100"]


@pytest.mark.parametrize("named_by", ["operator", "sensor"])
def test_relative_catalog_starts_at_the_folder_of_the_dag_file(tmp_path: Path, named_by: str) -> None:
    Scripted.reset(report())
    (tmp_path / "catalog.yaml").write_text(json.dumps(instance()))
    compute: Any = {"type": "on_demand", "instances": ["gpu.h100"]}
    with DAG("d", schedule=None) as dag:
        dag.fileloc = str(tmp_path / "dag.py")
        if named_by == "operator":
            task: Any = PyTorchJobOperator(
                task_id="t", image="x:1", command="true", compute=compute, catalog="catalog.yaml"
            )
            which = QuotaSensor(task_id="quota", task=task)
        else:
            which = QuotaSensor(task_id="quota", task={**FORM, "compute": compute}, catalog="catalog.yaml")
    assert run(which)["instance"] == "gpu.h100"


def test_what_the_backend_can_not_carry_fails_at_once() -> None:
    Scripted.reset(report())
    Scripted.reasons.append(Reason("ssh", "NoSsh", "there is no other machine here"))
    with pytest.raises(AirflowFailException, match="ssh: there is no other machine here"):
        run(sensor(soft_fail=True))


def test_a_wrong_form_fails_when_the_dag_is_read() -> None:
    with pytest.raises(SpecError, match=r"the task of 'quota' has 2 problems"):
        sensor({**FORM, "workers": -1, "comand": "x"})


def test_a_form_that_turns_out_wrong_when_rendered_fails_without_retry() -> None:
    Scripted.reset(report())
    with pytest.raises(AirflowFailException, match="workers"):
        run(sensor({**FORM, "workers": "{{ params.n }}"}), params={"n": "many"})


def test_a_mapped_operator_is_refused_with_what_to_do() -> None:
    with DAG("d", schedule=None):
        mapped = PyTorchJobOperator.partial(task_id="t", image="x:1", command="c", compute=FORM["compute"]).expand(
            workers=[1, 2]
        )
        with pytest.raises(UsageError, match="is mapped"):
            QuotaSensor(task_id="quota", task=mapped)  # type: ignore[arg-type]


def test_a_missing_connection_fails_also_softly() -> None:
    with pytest.raises(AirflowException, match="no connection 'nowhere'"):
        run(sensor(conn_id="nowhere", soft_fail=True))


def test_what_goes_to_the_database_holds_sizes_and_no_secret() -> None:
    Scripted.reset(report(available=SHORT))
    form = {
        **FORM,
        "kind": "RayJob",
        "workers": 2,
        "ray": {
            "runtime_env": {"env_vars": {"KEY": CANARY}},
            "autoscaling": {"min_workers": 1, "max_workers": 4},
            "head": {"instance": {"cpu": 2, "memory": "4Gi"}},
        },
        "kubernetes": {"node_selector": {"zone": "a"}, "annotations": {"note": CANARY}},
    }
    with pytest.raises(TaskDeferred) as deferred:
        run(sensor(form))
    _, kwargs = deferred.value.trigger.serialize()
    stored = json.dumps([kwargs, deferred.value.kwargs])
    assert CANARY not in stored
    assert len(stored) < 2000
    asked = Scripted.asked[0]
    rebuilt = QuotaTrigger(**kwargs)
    Scripted.reset(report())
    task = rebuilt_task(rebuilt)
    assert (task.flavors, task.head, task.replicas) == (asked.flavors, asked.head, asked.replicas)
    assert task.task.kubernetes.node_selector == {"zone": "a"}
    assert task.task.compute == asked.task.compute


def rebuilt_task(trigger: QuotaTrigger) -> Any:
    from siflow_provider.core.room import Demand

    return Demand.model_validate(trigger.demand).resolved()


def test_hidden_values_stay_out_of_the_serialized_dag_and_the_rendered_view() -> None:
    from airflow.serialization import serialized_objects

    with DAG("d", schedule=None) as dag:
        QuotaSensor(task_id="quota", task={**FORM, "command": "true"})
        train = PyTorchJobOperator(task_id="t", spec={**FORM, "command": "true"})
        QuotaSensor(task_id="two", task=train) >> train
        QuotaSensor.partial(task_id="mapped").expand(task=[{**FORM, "command": "true"}])
        QuotaSensor.partial(task_id="fixed", task={**FORM, "command": "true"}).expand(poke_interval=[1, 2])
    names = ("DagSerialization", "SerializedDAG")  # from Airflow 3.2 on, and before
    serializer: Any = next(getattr(serialized_objects, name) for name in names if hasattr(serialized_objects, name))
    assert CANARY not in json.dumps(serializer.serialize_dag(dag))


def test_a_sensor_on_an_operator_waits_for_what_the_operator_needs() -> None:
    from airflow.sdk import task

    with DAG("d", schedule=None):

        @task
        def pick() -> int:
            return 1

        train = PyTorchJobOperator(task_id="t", image="x:1", command="c", compute=FORM["compute"], workers=pick())
        wait = QuotaSensor(task_id="quota", task=train)
    assert wait.upstream_task_ids == {"pick"}


@pytest.mark.parametrize("mapped", [False, True])
def test_an_operator_is_rendered_for_the_sensor_and_stays_as_it_is_for_its_own_run(mapped: bool) -> None:
    Scripted.reset(report())
    env: Any = {
        "RUN": "{{ ti.task_id }}",
        "LIST": "{{ params.text }}",
        "TOKEN": {"value": "{{ ti.task_id }}", "hidden": True},
    }
    with DAG("d", schedule=None):
        train = PyTorchJobOperator(
            task_id="own-canary", image="x:1", command="run {{ ti.task_id }}", env=env, workers="{{ params.workers }}",
            spec={"kind": "PyTorchJob", "labels": {"of": "{{ ti.task_id }}"}}, compute=FORM["compute"],
        )  # fmt: skip
        fixed: Any = QuotaSensor.partial(task_id="quota", task=train).expand(poke_interval=[1])
        plain = QuotaSensor(task_id="room", task=train)
    before = {name: repr(getattr(train, name)) for name in train.template_fields}
    which = fixed.unmap({"poke_interval": 1}) if mapped else plain
    run(which, params={"workers": 2, "text": "{{ no_template }}"})
    assert [task.replicas for task in Scripted.asked] == [3]
    assert {name: repr(getattr(train, name)) for name in train.template_fields} == before
    assert train.command == "run {{ ti.task_id }}"
    assert train.env["TOKEN"].value == "{{ ti.task_id }}"
    # in one process (`airflow dags test`) the operator renders next, by its own names; Airflow masks this one from now
    # on in all that the process writes, so no other test may use it
    own: Any = {"ti": SimpleNamespace(task_id="own-canary"), "params": {"workers": 2, "text": "{{ no_template }}"}}
    train.render_template_fields(own)
    assert (train.command, train.env["RUN"], train.env["LIST"]) == ("run own-canary", "own-canary", "{{ no_template }}")


def test_the_form_model_is_not_changed_by_asking() -> None:
    Scripted.reset(report())
    model = load({**FORM, "workers": 1})
    assert isinstance(model, PyTorchJob)
    run(sensor(model))
    assert model == load({**FORM, "workers": 1})
