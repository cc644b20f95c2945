"""Our errors and outcomes as Airflow's own exceptions."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.status import FailureClass
from siflow_provider.errors import (
    AccessDenied,
    BackendError,
    NameTaken,
    NeverAdmissibleError,
    RunFailed,
    SiflowError,
    SpecError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siflow_provider.core.outcome import RunEnd

__all__ = ["airflow_errors", "as_airflow", "finish"]

_FINAL = (SpecError, UsageError, UnsupportedError, NeverAdmissibleError, NameTaken, AccessDenied)
"""Errors that another try of the same task would meet again."""


def as_airflow(error: SiflowError) -> AirflowException:
    """Return Airflow's exception for one of ours: without a retry where none can help."""
    text = str(error)
    final = isinstance(error, _FINAL)
    if isinstance(error, RunFailed):
        # somebody ended this run on purpose: Airflow must not start it again
        final = error.failure.category is FailureClass.STOPPED_BY_USER
    return AirflowFailException(text) if final else AirflowException(text)


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Turn each of our errors that passes into Airflow's, with our words and without our traceback."""
    try:
        yield
    except SiflowError as error:
        raise as_airflow(error) from None
    except asyncio.CancelledError:
        raise AirflowException("the task was killed while it waited for its run") from None


def finish(end: RunEnd) -> dict[str, Any]:
    """Return what the operator pushes for a run that ended well.

    Raises:
        RunFailed: it did not end well.
    """
    outcome = end.outcome
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return end.summary()
    if outcome.failure is None:
        raise BackendError(f"{outcome.ref.name} ended as {outcome.phase} without a reason.")
    raise RunFailed(outcome.failure, summary=end.summary())
