"""What our sensors share: when they wait where, and what a mistake does to a sensor that may fail softly."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from siflow_provider.errors import BackendUnavailable, SiflowError
from siflow_provider.operators.keywords import unknown_keywords, without, wrong_waits

try:
    from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferralError
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowSensorTimeout, TaskDeferralError  # type: ignore[no-redef]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

    from siflow_provider.errors import Problem

__all__ = ["Refused", "SiflowSensor", "Unanswered", "refusing"]


class Refused(AirflowFailException):
    """A mistake that no waiting mends: fails at once, without retry, also with `soft_fail`."""


class Unanswered(AirflowException):
    """The question could not be asked: fails, with Airflow's retries, also with `soft_fail`."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn each of our errors that passes into Airflow's, with our words and without our traceback."""
    try:
        yield
    except BackendUnavailable as error:
        raise Unanswered(str(error)) from None
    except SiflowError as error:
        raise Refused(str(error)) from None


class SiflowSensor(BaseSensorOperator):
    """A sensor whose `soft_fail` means the same in all three modes: running out of time skips, a mistake fails.

    Airflow itself skips on every error while deferred, and on an `AirflowFailException` while it pokes; a wrong queue
    would turn a pipeline quietly into skipped tasks. `never_fail` keeps Airflow's meaning: any
    error skips.

    `execution_timeout` fails the try whatever these say, as it does where it strikes between two looks of Airflow's own
    sensors. Deferred time counts, as the time between two looks does while poking.

    Args:
        deferrable: wait in the triggerer; None = unless `mode="reschedule"` is asked for.
        kwargs: every keyword of an Airflow sensor.
    """

    deferrable: bool
    _began_at: datetime | None = None
    _wrong: tuple[Problem, ...] = ()

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        unknown = unknown_keywords(type(self), kwargs)
        super().__init__(**without(kwargs, unknown))
        self.deferrable = self.mode != "reschedule" if deferrable is None else deferrable
        self._wrong = (*unknown, *wrong_waits(self))

    def execute(self, context: Context) -> Any:
        """Look once and defer, or poke as every sensor does."""
        self._began_at = datetime.now(UTC)
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSkipException as skip:
                _take_back(skip, soft_fail=self.soft_fail)
                raise
        found = self._first_look(context)
        if isinstance(found, PokeReturnValue) and found.is_done:
            return found.xcom_value
        return self.wait_deferred(context)

    @abstractmethod
    def wait_deferred(self, context: Context) -> Any:
        """Defer; called when a first look did not end the wait."""

    def time_to_wait(self) -> timedelta:
        """Return for how long to defer: `timeout`, or what is left of `execution_timeout` where that is less."""
        now, most = datetime.now(UTC), timedelta(seconds=self.timeout)
        if self.execution_timeout is None:
            return most
        return max(timedelta(), min(most, (self._began_at or now) + self.execution_timeout - now))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume as every sensor does, but for mistakes under `soft_fail` and for an `execution_timeout`."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSkipException as skip:
            if isinstance(skip.__cause__, AirflowSensorTimeout):
                self._refuse_overtime()
            _take_back(skip, soft_fail=self.soft_fail)
            raise
        except AirflowSensorTimeout as error:
            self._refuse_overtime()
            # Airflow 3.1.0 forgets both here
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipping: {error}") from error
            raise

    def _refuse_overtime(self) -> None:
        """Raise where it was `execution_timeout` that ran out while deferred: Airflow tells of one time only."""
        limit = self.execution_timeout
        if limit is not None and limit.total_seconds() <= self.timeout:
            raise AirflowTaskTimeout(f"the try took longer than execution_timeout ({limit})") from None

    def _first_look(self, context: Context) -> bool | PokeReturnValue:
        """Poke once by the rules of Airflow's own poke loop."""
        try:
            return self.poke(context)
        except AirflowSkipException:
            raise
        except Exception as error:
            fails = isinstance(error, AirflowFailException)
            if self.silent_fail and not fails:
                self.log.warning("the first look failed, looking again: %s", error)
                return False
            if self.never_fail or (self.soft_fail and fails and not isinstance(error, Refused)):
                raise AirflowSkipException(f"Skipping: {error}") from error
            raise


def _take_back(skip: AirflowSkipException, *, soft_fail: bool) -> None:
    """Raise what Airflow turned into a skip, where it was no failure of the kind that `soft_fail` is for.

    Airflow skips for an `execution_timeout` that strikes during a look, and fails for one that strikes between two.
    """
    cause = skip.__cause__
    mistake = soft_fail and isinstance(cause, (Refused, Unanswered, TaskDeferralError))
    if cause is not None and (mistake or isinstance(cause, AirflowTaskTimeout)):
        raise cause from None
