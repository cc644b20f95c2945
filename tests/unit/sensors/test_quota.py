"""QuotaSensor: what it is asked about, what it says, and how it ends in each mode."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk import DAG

from siflow_provider.decorators import pytorch_job_task
from siflow_provider.errors import Reason, SpecError, UsageError
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.sensors import QuotaSensor
from siflow_provider.spec import PyTorchJob, load
from siflow_provider.triggers.quota import QuotaTrigger
from tests.unit.sensors.airflow_errors import (
    AirflowRescheduleException,
    AirflowSensorTimeout,
    TaskDeferralError,
    TaskDeferred,
)
from tests.unit.sensors.scripted import NEVER, SHORT, UNREACHABLE, Scripted, instance, report

CANARY = "c4n4ry-in-the-form"
FORM: dict[str, Any] = {
    "kind": "PyTorchJob",
    "image": "registry.example/x:1",
    "command": f"train --token {CANARY}",
    "env": {"TOKEN": {"value": CANARY, "hidden": True}},
    "compute": {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]},
}
MODES: dict[str, dict[str, Any]] = {
    "poke": {"deferrable": False},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be called outside of the Task Runner")


def sensor(task: Any = None, **options: Any) -> QuotaSensor:
    with DAG("d", schedule=None):
        return QuotaSensor(task_id="quota", **{"task": FORM if task is None else task, "poke_interval": 0, **options})


def run(which: QuotaSensor, **context: Any) -> Any:
    """Render and execute as a worker does; a deferred sensor ends as its trigger's event says."""
    instance = SimpleNamespace(
        dag_id="d", task_id="quota", run_id="r", map_index=-1, try_number=1, get_first_reschedule_date=long_ago
    )
    full: Any = {"ti": instance, "dag": which.dag, "task": which, **context}
    which.render_template_fields(full)
    return which.execute(full)


def long_ago(_: Any) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC)


async def resumed(which: QuotaSensor) -> Any:
    with pytest.raises(TaskDeferred) as deferred:
        run(which)
    path, kwargs = deferred.value.trigger.serialize()
    assert path == f"{QuotaTrigger.__module__}.{QuotaTrigger.__name__}"
    trigger = QuotaTrigger(**json.loads(json.dumps(kwargs)))
    event = await anext(trigger.run())
    return which.resume_execution(deferred.value.method_name, {"event": event.payload}, {})


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


def test_why_not_is_said_with_numbers_and_again_only_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    Scripted.reset(*[report(available=SHORT)] * 3, UNREACHABLE, UNREACHABLE, report(available=SHORT), report())
    run(sensor(deferrable=False))
    said = re.findall(r"no room yet: (.*?)(?:\x1b| +\[airflow)", capsys.readouterr().out)
    short = "the queue is full; nvidia.com/gpu: need 8 GPUs, have 3 GPUs in queue od-h100"
    assert said == [short, "quota is not known: the API server does not answer.", short]


@pytest.mark.parametrize("mode", MODES)
async def test_a_wrong_queue_fails_at_once_also_softly(mode: str) -> None:
    Scripted.reset(report(ever=NEVER, available=NEVER))
    with pytest.raises(AirflowFailException, match=r"can never be admitted: no such queue; .* have 0 GPUs") as caught:
        run(sensor(soft_fail=True, **MODES[mode]))
    assert not isinstance(caught.value, AirflowSkipException)


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_running_out_of_time_skips_or_fails_without_retry(mode: str, soft: bool) -> None:
    Scripted.reset(report(available=SHORT))
    which = sensor(soft_fail=soft, timeout=0, **MODES[mode])
    with pytest.raises(AirflowSkipException if soft else AirflowSensorTimeout):
        run_out_of_time(which)


def run_out_of_time(which: QuotaSensor) -> None:
    try:
        run(which)
    except TaskDeferred:
        # what the scheduler does when a trigger's time is over
        which.resume_execution("__fail__", {"error": "Trigger timeout"}, {})


def test_a_deferred_sensor_gives_the_scheduler_its_timeout() -> None:
    Scripted.reset(report(available=SHORT))
    with pytest.raises(TaskDeferred) as deferred:
        run(sensor(timeout=90, poke_interval=7))
    assert deferred.value.timeout is not None
    assert deferred.value.timeout.total_seconds() == 90
    assert deferred.value.trigger.interval == 7


async def test_a_deferred_task_that_turns_out_impossible_fails_also_softly() -> None:
    Scripted.reset(report(available=SHORT), report(ever=NEVER, available=NEVER))
    with pytest.raises(AirflowFailException, match="can never be admitted"):
        await resumed(sensor(soft_fail=True))


async def test_a_deferred_sensor_returns_what_the_poking_one_does() -> None:
    Scripted.reset(report(available=SHORT), UNREACHABLE, report())
    assert await resumed(sensor()) == {"instance": "in-place", "queue": "od-h100"}


def test_a_dead_trigger_fails_with_retries_also_softly() -> None:
    with pytest.raises(TaskDeferralError):
        sensor(soft_fail=True).resume_execution("__fail__", {"error": "Trigger failure"}, {})


def test_never_fail_skips_whatever_went_wrong() -> None:
    Scripted.reset(report(ever=NEVER, available=NEVER))
    for options in MODES.values():
        with pytest.raises(AirflowSkipException):
            run(sensor(never_fail=True, **options))


def test_silent_fail_does_not_hide_a_mistake() -> None:
    Scripted.reset(report(ever=NEVER, available=NEVER))
    with pytest.raises(AirflowFailException):
        run(sensor(silent_fail=True, deferrable=False))


def test_reschedule_mode_frees_the_worker_between_looks() -> None:
    Scripted.reset(report(available=SHORT))
    with pytest.raises(AirflowRescheduleException):
        run(sensor(mode="reschedule", timeout=10**9))


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


def test_the_form_model_is_not_changed_by_asking() -> None:
    Scripted.reset(report())
    model = load({**FORM, "workers": 1})
    assert isinstance(model, PyTorchJob)
    run(sensor(model))
    assert model == load({**FORM, "workers": 1})
