"""TrainingJobSensor: which run is meant, and what its end means; runs themselves are followed in the e2e tests."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow.sdk import DAG

from siflow_provider.core.outcome import Outcome, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, Status
from siflow_provider.core.veil import Veil
from siflow_provider.errors import UsageError
from siflow_provider.sensors import TrainingJobSensor
from siflow_provider.triggers.find import FindRunTrigger, find_run
from siflow_provider.triggers.run import Carried, RunEvent, RunTrigger
from tests.unit.sensors.airflow_errors import TaskDeferred
from tests.unit.sensors.asking import long_ago
from tests.unit.sensors.scripted import UNREACHABLE, Scripted, report

REF = JobRef(backend="local", kind="PyTorchJob", name="bert-3f9c1a7", uid="u1", task_uuid="t1")
SECOND = REF.model_copy(update={"name": "bert-3f9c1a7-2", "uid": "u2", "attempt": 2})
VEIL = Veil.of(["c4n4ry-of-somebody-else"])
OTHER = JobRef(backend="local", kind="PyTorchJob", name="bert-aaaaaaa", uid="u9", task_uuid="t9")
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be called outside of the Task Runner")


def known(*refs: JobRef) -> Scripted:
    Scripted.reset(report())
    Scripted.found = staticmethod(lambda: [Status(ref=ref, phase=Phase.RUNNING) for ref in refs])
    return Scripted(settings=None)  # type: ignore[arg-type]


def sensor(**options: Any) -> TrainingJobSensor:
    with DAG("d", schedule=None):
        return TrainingJobSensor(task_id="wait", poke_interval=0, **options)


def run(which: TrainingJobSensor, **context: Any) -> Any:
    instance = SimpleNamespace(
        dag_id="d", task_id="wait", run_id="r", map_index=-1, try_number=1, get_first_reschedule_date=long_ago
    )
    full: Any = {"ti": instance, "dag": which.dag, "task": which, **context}
    which.render_template_fields(full)
    return which.execute(full)


@pytest.mark.parametrize(
    ("name", "uid", "found"),
    [
        ("bert-3f9c1a7", "", SECOND),
        ("bert-3f9c1a7", "u1", SECOND),
        ("bert-3f9c1a7-2", "", SECOND),
        ("bert-3f9c1a7", "another", None),
        ("bert", "", None),
    ],
)
async def test_the_newest_attempt_of_the_named_run_is_meant(name: str, uid: str, found: JobRef | None) -> None:
    status = await find_run(known(OTHER, REF, SECOND), name, uid)  # type: ignore[arg-type]
    assert (None if status is None else status.ref) == found


@pytest.mark.parametrize("options", [{}, {"name": "a", "ref": {"name": "a"}}])
def test_exactly_one_of_name_and_ref_is_needed(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="exactly one of `name` and `ref`"):
        sensor(**options)


@pytest.mark.parametrize(
    "ref", [REF, {"name": REF.name, "uid": "u1", "phase": "x"}, '{"name": "bert-3f9c1a7"}', "bert-3f9c1a7"]
)
def test_what_an_operator_pushed_names_its_run(ref: Any) -> None:
    known()
    with pytest.raises(TaskDeferred) as deferred:
        run(sensor(ref=ref))
    assert deferred.value.trigger.name == "bert-3f9c1a7"


@pytest.mark.parametrize("ref", [{"uid": "u1"}, "{"])
def test_a_ref_without_a_name_fails_without_retry(ref: Any) -> None:
    known()
    with pytest.raises(AirflowFailException, match="`ref` names no run"):
        run(sensor(ref=ref, soft_fail=True))


@pytest.mark.parametrize(
    "given",
    [{"name": "{{ None }}"}, {"name": " "}, {"ref": "{{ None }}"}, {"ref": {"name": None}}, {"name": "My Training"}],
)
def test_a_name_that_no_run_can_have_fails_at_once_and_is_not_waited_for(given: dict[str, Any]) -> None:
    known()
    with pytest.raises(AirflowFailException, match=r"no run.*siflow-provider ps"):
        run(sensor(**given, soft_fail=True))


def test_an_output_that_is_none_fails_at_once_and_is_not_waited_for() -> None:
    known()
    for option in ("name", "ref"):
        which = sensor(**{option: "later"})
        setattr(which, option, None)  # as another task's output is rendered
        with pytest.raises(AirflowFailException, match="no run is named"):
            run(which)


def test_hidden_values_of_somebody_elses_run_stay_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = Status(ref=REF, phase=Phase.RUNNING, reason="pulling with c4n4ry-of-somebody-else", veil=VEIL)
    known()
    monkeypatch.setattr(Scripted, "found", staticmethod(lambda: [status]))
    with pytest.raises(TaskDeferred) as deferred:
        run(sensor(name=REF.name))
    assert deferred.value.trigger.data.veil == VEIL
    said = capsys.readouterr().out
    assert "is running pulling with ***" in said
    assert "c4n4ry" not in said


def test_a_backend_without_an_answer_is_not_told_as_a_missing_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known()

    def refuse() -> list[Status]:
        raise UNREACHABLE

    monkeypatch.setattr(Scripted, "found", staticmethod(refuse))
    with pytest.raises(TaskDeferred):
        run(sensor(name=REF.name))
    said = capsys.readouterr().out
    assert said.count("no answer from the backend, looking again: the API server does not answer") == 1
    assert "no run named" not in said


async def test_a_run_that_comes_later_is_found_by_the_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    known()
    which = sensor(name="{{ params.run }}", timeout=50)
    with pytest.raises(TaskDeferred) as deferred:
        run(which, params={"run": REF.name})
    assert deferred.value.timeout.total_seconds() == pytest.approx(50, abs=5)
    trigger = FindRunTrigger(**json.loads(json.dumps(deferred.value.trigger.serialize()[1])))
    looks: list[Any] = [[], UNREACHABLE, [Status(ref=REF, phase=Phase.RUNNING, veil=VEIL)]]

    def look() -> list[Status]:
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(found, Exception):
            raise found
        return list(found)

    monkeypatch.setattr(Scripted, "found", staticmethod(look))
    event = await anext(trigger.run())
    with pytest.raises(TaskDeferred) as second:
        which.resume_execution(deferred.value.method_name, {"event": event.payload}, {})
    follow = second.value.trigger
    assert isinstance(follow, RunTrigger)
    assert (follow.data.ref, follow.data.veil, follow.data.on_kill_action) == (REF, VEIL, "detach")
    # the time that finding took is not given twice
    assert second.value.timeout.total_seconds() <= 50


@pytest.mark.parametrize("there", [True, False], ids=["following", "looking for it"])
def test_execution_timeout_counts_while_deferred_over_all_legs(there: bool) -> None:
    known(*([REF] if there else []))
    limits: dict[str, Any] = {"execution_timeout": timedelta(seconds=50), "timeout": 90, "soft_fail": True}
    with pytest.raises(TaskDeferred) as deferred:
        run(sensor(name=REF.name, **limits))
    assert 0 < deferred.value.timeout.total_seconds() < 50
    if not there:
        found = {"ref": REF.model_dump(mode="json"), "veil": VEIL.model_dump(mode="json"), "error": ""}
        event = {**found, "deadline": deferred.value.trigger.deadline}
        with pytest.raises(TaskDeferred) as second:
            sensor(name=REF.name, **limits).resume_execution("run_found", {"event": event}, {})
        assert second.value.timeout.total_seconds() < deferred.value.timeout.total_seconds()
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout \(0:00:50\)"):
        sensor(name=REF.name, **limits).resume_execution("__fail__", {"error": "Trigger timeout"}, {})


async def test_a_trigger_that_can_not_ask_says_why_and_fails_also_softly() -> None:
    event = await anext(FindRunTrigger(conn_id="nowhere", name="x").run())
    with pytest.raises(AirflowException, match="no connection 'nowhere'") as caught:
        sensor(name="x", soft_fail=True).resume_execution("run_found", {"event": event.payload}, {})
    assert not isinstance(caught.value, AirflowSkipException)


def ended(kind: OutcomeKind, failure: Failure | None = None) -> dict[str, Any]:
    outcome = Outcome(kind=kind, ref=REF, phase=Phase(str(kind)), failure=failure)
    return RunEvent(outcome=outcome, carried=Carried(prefix=REF.name)).model_dump(mode="json")


def test_a_run_that_ended_well_gives_its_result() -> None:
    result = sensor(name="x").resume_execution("run_ended", {"event": ended(OutcomeKind.SUCCEEDED)}, {})
    assert (result["name"], result["phase"]) == (REF.name, "succeeded")


@pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.STOPPED, OutcomeKind.LOST])
def test_a_run_that_did_not_end_well_fails_once_and_skips_a_soft_sensor(kind: OutcomeKind) -> None:
    event = ended(kind, Failure(category=FailureClass.CODE, summary="worker-1 exited with 3"))
    with pytest.raises(AirflowFailException, match="worker-1 exited with 3"):
        sensor(name="x").resume_execution("run_ended", {"event": event}, {})
    with pytest.raises(AirflowSkipException):
        sensor(name="x", soft_fail=True).resume_execution("run_ended", {"event": event}, {})
