"""The clock of a try, which goes on from leg to leg."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from siflow_provider.core.outcome import Outcome, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, Phase
from siflow_provider.triggers.run import RunEvent
from tests.unit.operators.legs import Maker, delete, execute, resume

pytestmark = pytest.mark.runs


def test_each_deferral_of_a_try_has_the_deadline_of_its_first_start(make: Maker, backend_home: Path) -> None:
    operator, context = make(
        "sleep 60", execution_timeout=timedelta(hours=1), fault_tolerance={"max_retries": 2, "retry_on": ["preempted"]}
    )
    with pytest.raises(TaskDeferred) as caught:
        execute(operator, context)
    first, left = caught.value.trigger.data.carried.deadline, [caught.value.timeout]
    for attempt in (2, 3):
        trigger = caught.value.trigger
        delete(backend_home, trigger.data.ref)
        failure = Failure(category=FailureClass.PREEMPTED, summary="preempted")
        outcome = Outcome(kind=OutcomeKind.RETRY, ref=trigger.data.ref, phase=Phase.FAILED, failure=failure)
        with pytest.raises(TaskDeferred) as caught:
            resume(operator, context, RunEvent(outcome=outcome, carried=trigger.data.carried))
        assert caught.value.trigger.data.ref.attempt == attempt
        assert caught.value.trigger.data.carried.deadline == first
        left.append(caught.value.timeout)
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 3  # Airflow's own net comes nearer as well
    delete(backend_home, caught.value.trigger.data.ref)
