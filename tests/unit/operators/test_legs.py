"""The legs of a try, one after another, on real processes of this machine."""

from __future__ import annotations

import json
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.launch import launch
from siflow_provider.backends.local.store import StateDir
from siflow_provider.core.outcome import Outcome, OutcomeKind, Totals
from siflow_provider.core.protocol import Manifest
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase
from siflow_provider.errors import AccessDenied
from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.triggers.run import Carried, RunEvent, RunTrigger
from tests.unit.operators.legs import Maker, deferred, delete, execute, resume, statuses, wait_ended

pytestmark = pytest.mark.runs


def test_same_try_that_starts_again_adopts_its_run(
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = deferred(*make("sleep 60"))
    second = deferred(*make("sleep 60"))
    assert second.data.ref == first.data.ref
    assert len(statuses(backend_home)) == 1
    assert f"adopted {first.data.ref.name}" in capsys.readouterr().out
    delete(backend_home, first.data.ref)


def test_same_try_that_starts_again_after_its_run_leaves_out_the_lines_that_were_shown(
    make: Maker, backend_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    trigger = deferred(*make(f"echo one; echo two; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo three"))
    folder = tmp_path / "dag_id=unit" / "run_id=r1" / "task_id=train"
    folder.mkdir(parents=True)
    events = (f"following {trigger.data.ref.name}", "[master-0] one", "[master-0] two")
    shown = "".join(json.dumps({"event": event}) + "\n" for event in events)
    (folder / "attempt=1.log.trigger.1.log").write_text(shown)
    (tmp_path / "go").touch()
    wait_ended(backend_home, trigger.data.ref)
    assert execute(*make("true"))["name"] == trigger.data.ref.name
    out = capsys.readouterr().out
    assert "[master-0] three" in out
    assert "[master-0] one" not in out


def test_new_try_ends_the_run_of_the_older_one_first(make: Maker, backend_home: Path) -> None:
    old = deferred(*make("sleep 60")).data.ref
    new = deferred(*make("sleep 60", try_number=2)).data.ref
    assert old.name != new.name
    phases = {status.ref.name: status.phase for status in statuses(backend_home)}
    assert phases[old.name] is Phase.STOPPED
    assert not phases[new.name].terminal
    delete(backend_home, new)


def test_detached_run_of_an_older_try_is_left_alone(
    make: Maker, backend_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = deferred(*make("sleep 60", on_kill_action="detach")).data.ref
    new = deferred(*make("sleep 60", try_number=2, on_kill_action="detach")).data.ref
    assert not any(status.phase.terminal for status in statuses(backend_home))
    assert f"{old.name} of an earlier try still runs" in capsys.readouterr().out
    for ref in (old, new):
        delete(backend_home, ref)


def test_run_that_is_over_needs_no_triggerer(make: Maker, backend_home: Path) -> None:
    operator, context = make("exit 0", deferrable=False)
    result = execute(operator, context)
    operator, context = make("exit 0")
    assert execute(operator, context)["name"] == result["name"]
    assert len(statuses(backend_home)) == 1


def test_sync_failure_says_what_failed_and_pushes_it(make: Maker, backend_home: Path) -> None:
    operator, context = make("echo out of data; exit 7", deferrable=False)
    with pytest.raises(AirflowException, match="out of data") as caught:
        execute(operator, context)
    assert not isinstance(caught.value, AirflowFailException)
    assert context["ti"].xcoms["return_value"]["failure"]["exit_code"] == 7
    operator, context = make("exit 7", deferrable=False, do_xcom_push=False, try_number=2)
    with pytest.raises(AirflowException):
        execute(operator, context)
    assert context["ti"].xcoms == {}


def test_form_that_is_wrong_once_rendered_fails_without_retry_and_without_a_run(
    make: Maker, backend_home: Path
) -> None:
    operator, context = make("{{ x }}", workers="{{ x }}")
    operator.command, operator.workers = "true", "many"
    with pytest.raises(AirflowFailException, match="workers"):
        execute(operator, context)
    assert statuses(backend_home) == []


def test_trigger_carries_neither_form_nor_secret(make: Maker, backend_home: Path) -> None:
    env = {"TOKEN": {"value": "canary-7391", "hidden": True}, "PLAIN": "plain-4455"}
    trigger = deferred(*make("sleep 60; echo command-8123", env=env))
    stored = str(trigger.serialize())
    for text in ("canary-7391", "plain-4455", "command-8123"):
        assert text not in stored
    assert RunTrigger(**trigger.serialize()[1]).data == trigger.data
    delete(backend_home, trigger.data.ref)


def test_event_of_an_older_try_does_not_end_the_new_one(make: Maker, backend_home: Path) -> None:
    operator, context = make("exit 0", deferrable=False)
    execute(operator, context)
    new_operator, new_context = make("sleep 60", try_number=2)
    new = deferred(new_operator, new_context)
    (old,) = [status for status in statuses(backend_home) if status.ref != new.data.ref]
    outcome = Outcome(kind=OutcomeKind.SUCCEEDED, ref=old.ref, phase=Phase.SUCCEEDED)
    late = RunEvent(outcome=outcome, carried=Carried(prefix="unit-train", task_uuid=old.ref.task_uuid))
    with pytest.raises(TaskDeferred) as caught:
        resume(new_operator, new_context, late, carried=new.data.carried.model_dump(mode="json"))
    again = caught.value.trigger
    assert isinstance(again, RunTrigger)
    assert again.data.ref == new.data.ref
    delete(backend_home, new.data.ref)


def test_sync_task_makes_its_attempts_by_itself(make: Maker, backend_home: Path) -> None:
    tolerance = {"max_retries": 1, "retry_on": ["code"]}
    operator, context = make("exit 1", fault_tolerance=tolerance, deferrable=False)
    with pytest.raises(AirflowException, match="exit code 1"):
        execute(operator, context)
    assert sorted(status.ref.attempt for status in statuses(backend_home)) == [1, 2]


def test_failing_task_starts_retries_plus_one_times_max_retries_plus_one_and_no_more(
    make: Maker, backend_home: Path, tmp_path: Path
) -> None:
    retries, max_retries = 1, 2
    starts = tmp_path / "starts"
    tolerance = {"max_retries": max_retries, "retry_on": ["code"]}
    command = f"echo start >> {starts}; exit 1"
    for try_number in range(1, retries + 2):  # as Airflow does: every try anew, as long as it fails without a verdict
        operator, context = make(
            command, fault_tolerance=tolerance, retries=retries, deferrable=False, try_number=try_number
        )
        with pytest.raises(AirflowException, match="exit code 1") as caught:
            execute(operator, context)
        assert not isinstance(caught.value, AirflowFailException)  # which would take Airflow's retries away
        assert len(starts.read_text().splitlines()) == try_number * (max_retries + 1)
    assert len(statuses(backend_home)) == (retries + 1) * (max_retries + 1)


def test_worker_that_fails_after_the_master_ended_well_fails_the_task_by_name(
    make: Maker, backend_home: Path, tmp_path: Path
) -> None:
    over = tmp_path / "master_is_over"
    command = f"""
if [ "$RANK" = 0 ]; then touch {over}; exit 0; fi
until [ -e {over} ]; do sleep 0.05; done
sleep 1; echo checkpoint was cut off; exit 1
"""
    operator, context = make(command, workers=1, deferrable=False)
    with pytest.raises(AirflowException, match=r"worker-0 \(rank 1\).*exit code 1") as caught:
        execute(operator, context)
    assert "checkpoint was cut off" in str(caught.value)
    (status,) = statuses(backend_home)
    assert status.phase is Phase.FAILED
    assert {replica.name: replica.phase for replica in status.replicas} == {
        "master-0": Phase.SUCCEEDED,
        "worker-0": Phase.FAILED,
    }


def test_event_says_how_the_task_ends(make: Maker, backend_home: Path) -> None:
    operator, context = make("sleep 60")
    trigger = deferred(operator, context)
    carried = trigger.data.carried
    failure = Failure(category=FailureClass.CODE, summary="exit code 9")
    failed = Outcome(kind=OutcomeKind.FAILED, ref=trigger.data.ref, phase=Phase.FAILED, failure=failure)
    with pytest.raises(AirflowException, match="code: exit code 9"):
        resume(operator, context, RunEvent(outcome=failed, carried=carried))
    delete(backend_home, trigger.data.ref)


def test_run_that_may_not_be_looked_at_once_it_is_submitted_is_left_alone_and_followed(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def denied(*_: object) -> None:
        raise AccessDenied("cannot get it now.", hint="Add the rule.")

    kept: dict[str, Any] = {}
    monkeypatch.setattr("tests.unit.operators.conftest.keep", lambda *given: kept.update(given[-1]))
    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "status", denied)
        ref = deferred(*make("sleep 60")).data.ref
    (status,) = statuses(backend_home)
    assert (status.ref, status.phase.terminal) == (ref, False)
    assert "can't be looked at now: cannot get it now. Add the rule." in capsys.readouterr().out
    assert (kept["siflow_job"]["name"], kept["siflow_job"]["uid"]) == (ref.name, ref.uid)  # who asks can find it
    delete(backend_home, ref)


def test_kill_in_a_worker_stops_the_run_and_never_raises(make: Maker, backend_home: Path) -> None:
    operator, context = make("sleep 60")
    operator.on_kill()
    deferred(operator, context)
    operator.on_kill()
    operator.on_kill()
    assert [status.phase for status in statuses(backend_home)] == [Phase.STOPPED]


def test_kill_in_the_pause_between_two_attempts_ends_the_task_without_another(make: Maker, backend_home: Path) -> None:
    tolerance = {"max_retries": 3, "retry_on": ["code"]}
    operator, context = make("exit 1", fault_tolerance=tolerance, deferrable=False)
    killed = Thread(target=kill_once, args=(operator, backend_home))
    killed.start()
    with pytest.raises(AirflowException, match="killed"):
        execute(operator, context)
    killed.join(30)
    assert len(statuses(backend_home)) == 3


@pytest.mark.parametrize("deferrable", [True, False])
def test_run_whose_submit_was_under_way_at_the_kill_is_stopped(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch, deferrable: bool
) -> None:
    operator, context = make("sleep 600", deferrable=deferrable)

    def killed_before_the_last_step(state: StateDir, manifest: Manifest) -> JobRef:
        operator.on_kill()
        return launch(state, manifest)

    monkeypatch.setattr("siflow_provider.backends.local.launch.launch", killed_before_the_last_step)
    with pytest.raises(AirflowException, match="killed"):
        execute(operator, context)
    assert [status.phase for status in statuses(backend_home)] == [Phase.STOPPED]


def kill_once(operator: PyTorchJobOperator, home: Path) -> None:
    """Kill the task when its third attempt has failed: the pause before the next takes four seconds."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = statuses(home)
        if len(found) == 3 and all(status.phase.terminal for status in found):
            operator.on_kill()
            return


def test_attempt_that_is_asked_for_is_submitted_and_waited_for(make: Maker, backend_home: Path) -> None:
    arguments = {"fault_tolerance": {"max_retries": 2}, "name_prefix": "mine"}
    operator, context = make("sleep 60", **arguments)
    first = deferred(operator, context)
    delete(backend_home, first.data.ref)
    failure = Failure(category=FailureClass.NODE_LOST, summary="the node is gone", transient=True)
    outcome = Outcome(
        kind=OutcomeKind.RETRY,
        ref=first.data.ref,
        phase=Phase.FAILED,
        failure=failure,
        totals=Totals(running_seconds=7),
    )
    operator, context = make("sleep 60", **{**arguments, "name_prefix": "renamed"})
    with pytest.raises(TaskDeferred) as caught:
        resume(operator, context, RunEvent(outcome=outcome, carried=first.data.carried))
    second = caught.value.trigger
    assert isinstance(second, RunTrigger)
    assert second.data.ref.attempt == 2
    assert second.data.ref.name == f"{first.data.ref.name}-2"
    assert second.data.carried.ledger.totals.running_seconds == 7
    delete(backend_home, second.data.ref)


def test_run_that_the_triggerer_can_not_follow_is_stopped_by_the_worker_that_hears_of_it(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def send(_: object, event: str, *__: object) -> None:
        told.append(event)

    monkeypatch.setattr("siflow_provider.triggers.reporter.send_alert", send)
    operator, context = make("sleep 600", alerts=[{"events": ["failed"], "to": ["oncall"]}])
    data = deferred(operator, context).data
    failure = Failure(category=FailureClass.PLATFORM, summary="the triggerer can't follow it: no connection 'a'")
    outcome = Outcome(kind=OutcomeKind.FAILED, ref=data.ref, phase=Phase.FAILED, failure=failure)
    event = RunEvent(outcome=outcome, carried=data.carried, blind="the triggerer can't follow it")
    with pytest.raises(AirflowException, match="can't follow it: no connection 'a'"):
        resume(operator, context, event)
    (status,) = statuses(backend_home)
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "Airflow: the triggerer can't follow it")
    assert context["ti"].xcoms["return_value"]["phase"] == "failed"
    assert told == ["failed"]
