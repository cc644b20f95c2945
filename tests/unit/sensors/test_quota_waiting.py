"""QuotaSensor: what it says while it waits, and how it ends in each mode."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from siflow_provider.sensors import QuotaSensor
from tests.unit.sensors.airflow_errors import (
    AirflowRescheduleException,
    AirflowSensorTimeout,
    TaskDeferralError,
    TaskDeferred,
)
from tests.unit.sensors.asking import MODES, resumed, run, sensor
from tests.unit.sensors.scripted import NEVER, SHORT, UNREACHABLE, Scripted, report

QUOTA = QuotaSensor.__module__
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be called outside of the Task Runner")


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


OVERTIME: dict[str, dict[str, bool]] = {"hard": {}, "soft": {"soft_fail": True}, "never": {"never_fail": True}}


@pytest.mark.parametrize("options", OVERTIME.values(), ids=OVERTIME)
@pytest.mark.parametrize("strikes", ["in a look", "between two looks", "in the first look of a deferrable"])
def test_execution_timeout_of_a_worker_fails_the_try_whenever_it_strikes(
    strikes: str, options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted.reset(report(available=SHORT))

    def alarm(*_: object) -> None:
        raise AirflowTaskTimeout("Timeout")

    where = "airflow.sdk.bases.sensor.time.sleep" if strikes == "between two looks" else f"{QUOTA}.run_blocking"
    monkeypatch.setattr(where, alarm)
    which = sensor(execution_timeout=timedelta(seconds=5), deferrable="deferrable" in strikes, **options)
    with pytest.raises(AirflowTaskTimeout):
        run(which)


@pytest.mark.parametrize("options", OVERTIME.values(), ids=OVERTIME)
def test_execution_timeout_counts_while_deferred_and_fails_the_try(options: dict[str, bool]) -> None:
    Scripted.reset(report(available=SHORT))
    which = sensor(execution_timeout=timedelta(seconds=50), timeout=90, **options)
    with pytest.raises(TaskDeferred) as deferred:
        run(which)
    assert deferred.value.timeout is not None
    assert 0 < deferred.value.timeout.total_seconds() < 50
    with pytest.raises(AirflowTaskTimeout, match=r"longer than execution_timeout \(0:00:50\)"):
        sensor(execution_timeout=timedelta(seconds=50), timeout=90, **options).resume_execution(
            "__fail__", {"error": "Trigger timeout"}, {}
        )


@pytest.mark.parametrize(("options", "end"), [({}, AirflowSensorTimeout), ({"soft_fail": True}, AirflowSkipException)])
def test_a_timeout_below_the_execution_timeout_ends_as_a_sensors_timeout(
    options: dict[str, bool], end: type[Exception]
) -> None:
    Scripted.reset(report(available=SHORT))
    which = sensor(execution_timeout=timedelta(seconds=90), timeout=50, **options)
    with pytest.raises(TaskDeferred) as deferred:
        run(which)
    assert deferred.value.timeout == timedelta(seconds=50)
    with pytest.raises(end):
        which.resume_execution("__fail__", {"error": "Trigger timeout"}, {})


def test_execution_timeout_of_a_rescheduled_sensor_is_for_each_look() -> None:
    Scripted.reset(report(available=SHORT))
    with pytest.raises(AirflowRescheduleException):
        run(sensor(mode="reschedule", timeout=10**9, execution_timeout=timedelta(seconds=50)))
