"""A DAG run that was deleted and made again under the same id is another one, whatever its names say."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

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
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_event_for_a_deleted_dag_run_does_not_end_the_new_one(make: Maker, backend_home: Path) -> None:
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
