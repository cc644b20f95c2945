"""Which of our errors Airflow retries, and what it shows of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from siflow_provider.core.outcome import Outcome, OutcomeKind, RunEnd, Totals
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase
from siflow_provider.errors import (
    AccessDenied,
    BackendError,
    BackendUnavailable,
    NameTaken,
    NeverAdmissibleError,
    Problem,
    Reason,
    RunFailed,
    SiflowError,
    SpecError,
    UnsupportedError,
    UsageError,
)
from siflow_provider.operators.outcome import airflow_errors, finish

REF = JobRef(backend="local", kind="PyTorchJob", name="train-abc", uid="1", task_uuid="2")


def failed(category: FailureClass) -> RunFailed:
    return RunFailed(Failure(category=category, summary="it ended", hint="mend it"), summary={})


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (SpecError([Problem("workers", "must be 0 or more")]), True),
        (UsageError("no such connection"), True),
        (UnsupportedError([Reason("ssh", "NoSsh", "not here")], backend="local"), True),
        (NeverAdmissibleError("64 GPUs of 8"), True),
        (NameTaken("train-abc is somebody else's"), True),
        (AccessDenied("may not create"), True),
        (BackendUnavailable("no answer"), False),
        (BackendError("refused"), False),
        (failed(FailureClass.CODE), False),
        (failed(FailureClass.LOST), False),
        (failed(FailureClass.TIMEOUT), False),
        (failed(FailureClass.STOPPED_BY_USER), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, SiflowError) else str(value),
)
def test_error_is_retried_only_where_a_retry_can_help(error: SiflowError, final: bool) -> None:
    with pytest.raises(AirflowException) as caught, airflow_errors():
        raise error
    assert isinstance(caught.value, AirflowFailException) is final
    assert str(caught.value) == str(error)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_interrupted_leg_is_told_in_plain_words() -> None:
    with pytest.raises(AirflowException, match="was killed"), airflow_errors():
        raise asyncio.CancelledError


def test_result_is_pushed_with_what_all_attempts_took() -> None:
    outcome = Outcome(
        kind=OutcomeKind.SUCCEEDED,
        ref=REF.model_copy(update={"attempt": 2}),
        phase=Phase.SUCCEEDED,
        results={"loss": 1},
        totals=Totals(queued_seconds=1, running_seconds=10, gpu_seconds=3600),
    )
    pushed = finish(RunEnd(outcome, Totals(queued_seconds=2, running_seconds=5, gpu_seconds=1800)))
    assert pushed == {
        "name": "train-abc", "uid": "1", "phase": "succeeded", "attempts": 2, "queued_seconds": 3.0,
        "running_seconds": 15.0, "gpu_hours": 1.5, "results": {"loss": 1},
    }  # fmt: skip


def test_failure_carries_the_same_summary() -> None:
    failure = Failure(category=FailureClass.CODE, summary="exit code 3")
    outcome = Outcome(kind=OutcomeKind.FAILED, ref=REF, phase=Phase.FAILED, failure=failure)
    with pytest.raises(RunFailed, match="exit code 3") as caught:
        finish(RunEnd(outcome, Totals()))
    summary: dict[str, Any] = caught.value.summary
    assert summary["failure"]["category"] == "code"
    with pytest.raises(BackendError, match="without a reason"):
        finish(RunEnd(outcome.model_copy(update={"failure": None}), Totals()))
