"""A DAG run that was deleted and made again under the same id is another one, whatever its names say."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from siflow_provider.core import earlier
from siflow_provider.core.outcome import Outcome, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, Phase
from siflow_provider.triggers.run import RunEvent, RunTrigger
from tests.unit.operators.legs import Maker, deferred, delete, execute, resume, statuses

pytestmark = pytest.mark.runs


def test_dag_run_that_was_deleted_and_made_again_trains_again(make: Maker, backend_home: Path) -> None:
    command = 'echo "{\\"started\\": $(date +%s%N)}" > $SIFLOW_RESULTS'
    results = [execute(*make(command, instance_id=each, deferrable=False)) for each in ("a", "a", "b", "b")]
    assert results[0] == results[1]
    assert results[2] == results[3]
    assert results[0]["results"] != results[2]["results"]
    assert len(statuses(backend_home)) == 2


def test_live_run_of_a_deleted_dag_run_is_stopped_before_the_new_one_submits(
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SIFLOW__INSTALLATION", "blue")
    old = deferred(*make("sleep 60", instance_id="a")).data
    tolerance = {"max_retries": 1, "retry_on": ["code"]}
    operator, context = make("sleep 60", instance_id="b", fault_tolerance=tolerance)
    new = deferred(operator, context).data
    assert f"{old.ref.name} of an earlier DAG run with the same ids still runs" in capsys.readouterr().out
    failure = Failure(category=FailureClass.CODE, summary="exit code 9")
    outcome = Outcome(kind=OutcomeKind.RETRY, ref=new.ref, phase=Phase.FAILED, failure=failure)
    delete(backend_home, new.ref)
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, RunEvent(outcome=outcome, carried=new.carried))
    trigger = caught.value.trigger
    assert isinstance(trigger, RunTrigger)
    assert trigger.data.ref.name == f"{new.ref.name}-2"
    operator.on_kill()  # which finds the run of this very DAG run
    phases = {status.ref.name: status.phase for status in statuses(backend_home)}
    assert phases == {old.ref.name: Phase.STOPPED, trigger.data.ref.name: Phase.STOPPED}


def test_two_airflows_with_the_same_ids_stop_none_of_each_others_runs(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):  # the second try ends what the first one left, and nothing of the other Airflow
        for place in ("blue", " green "):
            monkeypatch.setenv("AIRFLOW__SIFLOW__INSTALLATION", place)
            deferred(*make("sleep 60", instance_id=place, try_number=number))
    there = [(status, status.origin) for status in statuses(backend_home)]
    found = {(origin.installation, origin.try_number): status for status, origin in there if origin is not None}
    assert {key: status.phase for key, status in found.items() if status.phase is Phase.STOPPED}.keys() == {
        ("blue", 1), ("green", 1)
    }  # fmt: skip
    assert len({status.ref.name for status in found.values()}) == 4
    for place in ("blue", "green"):
        delete(backend_home, found[place, 2].ref)


def test_live_run_that_may_be_another_airflows_fails_the_task_for_good_and_goes_on(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "_LET_GO_SECONDS", 0.5)
    theirs = deferred(*make("sleep 60", instance_id="theirs")).data
    operator, context = make("sleep 60", instance_id="ours")
    with pytest.raises(AirflowFailException, match=r"\[siflow\] installation"):
        execute(operator, context)
    operator.on_kill()
    (status,) = statuses(backend_home)
    assert (status.ref, status.phase.terminal) == (theirs.ref, False)
    delete(backend_home, theirs.ref)


def test_event_for_a_deleted_dag_run_does_not_end_the_new_one(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SIFLOW__INSTALLATION", "blue")
    old = deferred(*make("sleep 60", instance_id="a")).data
    operator, context = make("sleep 60", instance_id="b")
    new = deferred(operator, context).data
    late = RunEvent(
        outcome=Outcome(kind=OutcomeKind.SUCCEEDED, ref=old.ref, phase=Phase.SUCCEEDED), carried=old.carried
    )
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, late, carried=new.carried.model_dump(mode="json"))
    again = caught.value.trigger
    assert isinstance(again, RunTrigger)
    assert again.data.ref == new.ref
    delete(backend_home, new.ref)
