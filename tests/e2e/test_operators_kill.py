"""Whatever ends the Airflow task ends its run: no orphan, and never two runs at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from siflow_provider.core.status import Phase
from tests.e2e.training import add_training_dag, runs_of, wait_no_live_run

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import Run

LONG = 'PyTorchJobOperator(task_id="train", command="echo at work; sleep 600", workers=1, **JOB)'


@pytest.fixture(
    params=[pytest.param("stack", id="sqlite", marks=pytest.mark.floor), pytest.param("pg_stack", id="postgres")]
)
def each_stack(request: pytest.FixtureRequest) -> AirflowStack:
    """Return one stack after the other: a kill races the triggerer through the database, and here there are two."""
    found: AirflowStack = request.getfixturevalue(request.param)
    return found


def deferred(stack: AirflowStack, name: str, body: str = LONG) -> Run:
    add_training_dag(stack, name, body)
    run = stack.trigger(name)
    run.ti("train").wait_state("deferred")
    run.ti("train").wait_log("[master-0] at work")
    return run


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_a_deferred_task_stops_its_run_and_says_so(each_stack: AirflowStack, state: str) -> None:
    name = f"op_marked_{state}"
    run = deferred(each_stack, name)
    run.ti("train").mark(state)
    (status,) = wait_no_live_run(each_stack, name.replace("_", "-"))
    assert status.phase is Phase.STOPPED
    assert f"the task was marked {state}" in status.stopped_by
    run.ti("train").wait_log(f"the task was marked {state}: stopping {status.ref.name}")
    assert run.ti("train").state == state


def test_failing_the_whole_dag_run_stops_the_run(each_stack: AirflowStack) -> None:
    run = deferred(each_stack, "op_run_failed")
    run.mark("failed")
    (status,) = wait_no_live_run(each_stack, "op-run-failed")
    assert status.phase is Phase.STOPPED


def test_dag_run_that_takes_too_long_is_ended_with_all_its_runs(stack: AirflowStack) -> None:
    body = """
    for mode, deferrable in {"deferred": True, "sync": False}.items():
        PyTorchJobOperator(
            task_id=mode, command="echo at work; exec sleep 613", workers=1, deferrable=deferrable, retries=1, **JOB
        )
    """
    add_training_dag(stack, "op_run_timeout", body, dag_args=", dagrun_timeout=timedelta(seconds=30)")
    run = stack.trigger("op_run_timeout")
    for mode, state in {"deferred": "deferred", "sync": "running"}.items():
        run.ti(mode).wait_log("[master-0] at work")
        assert run.ti(mode).state == state
    assert run.wait(90) == "failed"
    statuses = wait_no_live_run(stack, "op-run-timeout")
    assert [status.phase for status in statuses] == [Phase.STOPPED] * 2
    assert not [one for one in stack.processes() if one.cmdline()[-1:] == ["613"]]
    assert run.states() == {"deferred": "skipped", "sync": "skipped"}
    run.ti("deferred").wait_log("the task was marked skipped: stopping ")


def test_after_a_clear_the_old_run_is_gone_before_the_new_one_is_submitted(each_stack: AirflowStack) -> None:
    body = LONG.replace("sleep 600", "[ $AIRFLOW_CTX_TRY_NUMBER = 2 ] || sleep 600")
    run = deferred(each_stack, "op_cleared", body)
    run.ti("train").clear()
    assert run.wait(120) == "success"
    new, old = sorted(runs_of(each_stack, "op-cleared"), key=lambda status: str(status.submitted_at), reverse=True)
    assert (old.phase, new.phase) == (Phase.STOPPED, Phase.SUCCEEDED)
    assert old.ended_at is not None
    assert new.submitted_at is not None
    assert old.ended_at <= new.submitted_at
    assert old.ref.name != new.ref.name
    assert run.ti("train").try_number == 2


def test_execution_timeout_counts_the_deferred_time_and_the_next_try_has_its_own(stack: AirflowStack) -> None:
    body = """
    PyTorchJobOperator(
        task_id="train", command="echo at work; [ $AIRFLOW_CTX_TRY_NUMBER = 2 ] || sleep 600", retries=1,
        retry_delay=timedelta(seconds=1), execution_timeout=timedelta(seconds=20), **JOB,
    )
    """
    run = deferred(stack, "op_timeout", body)
    assert run.wait(150) == "success"
    log = run.ti("train").log(1)
    assert "timeout: " in log
    assert run.ti("train").try_number == 2
    old = min(runs_of(stack, "op-timeout"), key=lambda status: str(status.submitted_at))
    assert old.phase is Phase.STOPPED
    assert old.submitted_at is not None
    assert old.ended_at is not None
    assert 12 <= (old.ended_at - old.submitted_at).total_seconds() <= 40


def test_killing_a_task_that_waits_in_its_worker_stops_the_run(stack: AirflowStack) -> None:
    add_training_dag(stack, "op_sync_killed", LONG.replace("workers=1", "deferrable=False"))
    run = stack.trigger("op_sync_killed")
    run.ti("train").wait_log("[master-0] at work")
    assert run.ti("train").state == "running"
    run.ti("train").mark("failed")
    (status,) = wait_no_live_run(stack, "op-sync-killed")
    assert status.phase is Phase.STOPPED


def test_sync_task_ends_at_its_execution_timeout_with_its_run(stack: AirflowStack) -> None:
    body = LONG.replace("workers=1", "deferrable=False, execution_timeout=timedelta(seconds=10)")
    add_training_dag(stack, "op_sync_timeout", body)
    run = stack.trigger("op_sync_timeout")
    assert run.wait(90) == "failed"
    assert "timeout: " in run.ti("train").log()
    (status,) = wait_no_live_run(stack, "op-sync-timeout", timeout=20)
    assert status.phase is Phase.STOPPED


def test_detached_run_goes_on_and_the_log_says_so(stack: AirflowStack) -> None:
    body = LONG.replace("sleep 600", "sleep 25").replace("workers=1", 'on_kill_action="detach"')
    run = deferred(stack, "op_detached", body)
    run.ti("train").mark("failed")
    run.ti("train").wait_log("is left running (on_kill_action='detach')")
    (status,) = wait_no_live_run(stack, "op-detached")
    assert status.phase is Phase.SUCCEEDED


def test_gc_stops_what_was_killed_while_no_triggerer_was_there_and_nothing_else(stack: AirflowStack) -> None:
    body = 'PyTorchJobOperator.partial(task_id="train", **JOB).expand(command=["sleep 600", "sleep 601"])'
    add_training_dag(stack, "op_orphan", body)
    stack.terminate("triggerer-1")
    try:
        run = stack.trigger("op_orphan")
        for index in (0, 1):
            run.ti("train", map_index=index).wait_state("deferred")
        run.ti("train", map_index=0).mark("failed")
        user, password = stack.settings.login()
        tokens = httpx.post(f"{stack.settings.url}/auth/token", json={"username": user, "password": password})
        environment = {
            **os.environ,
            "SIFLOW_LOCAL_STATE_DIR": str(stack.settings.home / "siflow"),
            "SIFLOW_AIRFLOW_TOKEN": tokens.json()["access_token"],
        }
        command = [sys.executable, "-m", "siflow_provider.cli.main", "gc", "--airflow", stack.settings.url, "--json"]

        def gc(*arguments: str) -> dict[int, dict[str, Any]]:
            done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=True)
            found = [one for one in json.loads(done.stdout) if one["name"].startswith("op-orphan-")]
            return {one["task"]["map_index"]: one for one in found}

        assert {index: (one["airflow"], one["action"]) for index, one in gc().items()} == {
            0: ("failed, try 1", "stop"),
            1: ("deferred, try 1", "keep"),
        }
        assert [status.phase.terminal for status in runs_of(stack, "op-orphan")] == [False, False]
        assert gc("--yes")[0]["done"] is True
        phases = {status.origin.map_index: status.phase for status in runs_of(stack, "op-orphan") if status.origin}
        assert (phases[0], phases[1].terminal) == (Phase.STOPPED, False)
    finally:
        stack.start("triggerer-1")
    run.ti("train", map_index=1).mark("failed")
    wait_no_live_run(stack, "op-orphan")
