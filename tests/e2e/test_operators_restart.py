"""Whatever of Airflow dies, a run is followed to its end: one run, each line once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.airflow_stack import wait_until
from siflow_provider.core.status import Phase
from tests.e2e.training import WORKER_DIES_ONCE, add_training_dag, numbered_lines, runs_of

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import TaskInstance

COUNT = 400
QUICK = 100
MAPPED = 10
EACH = 100
NUMBERS = f"""
PyTorchJobOperator(
    task_id="train",
    command="for i in $(seq 1 {COUNT}); do echo line $i; sleep 0.1; done; sleep 1",
    workers=1, logs="all", **JOB,
)
"""
RETRIES = """
PyTorchJobOperator(
    task_id="train",
    command="echo attempt $SIFLOW_ATTEMPT of try $AIRFLOW_CTX_TRY_NUMBER; sleep 3; [ $SIFLOW_ATTEMPT = 3 ] || exit 1",
    fault_tolerance={"max_retries": 2, "retry_on": ["code"]}, **JOB,
)
"""

LEAVES_ONCE = """
from airflow.sdk import timezone
from airflow.sdk.exceptions import AirflowRescheduleException
from siflow_provider.operators import leg

look = leg._look

async def leave_or_look(backend, order, step):
    if not step.adopted:
        raise AirflowRescheduleException(timezone.utcnow() + timedelta(seconds=10))
    return await look(backend, order, step)

leg._look = leave_or_look

PyTorchJobOperator(task_id="train", command="echo at work; sleep 20", **JOB)
"""
"""A DAG's body: the worker leaves the try between the submission and the deferral, and Airflow runs it again.

Ten seconds later: Airflow fails a task that is queued again before the scheduler has heard that its worker ended.
"""


def assert_each_line_once(task: TaskInstance) -> None:
    log = task.log()
    for replica in ("master-0", "worker-0"):
        assert numbered_lines(log, replica, "line") == list(range(1, COUNT + 1)), log[-3000:]


def test_each_line_is_in_the_log_once_though_the_triggerer_is_killed_twice(stack: AirflowStack) -> None:
    add_training_dag(stack, "op_triggerer_killed", NUMBERS)
    run = stack.trigger("op_triggerer_killed")
    task = run.ti("train")
    for mark in (" line 50", " line 200"):
        task.wait_log(mark)
        stack.kill_triggerer()
        stack.wait_healthy()
    assert run.wait(180) == "success"
    assert_each_line_once(task)
    assert len(runs_of(stack, "op-triggerer-killed")) == 1
    assert "; shown before: master-0 " in task.log()


def test_mapped_instances_read_their_own_lines_though_the_triggerer_is_killed(
    stack: AirflowStack, tmp_path: Path
) -> None:
    half = EACH // 2
    command = (
        f"for i in $(seq 1 {half}); do echo input-NUMBER $i; done; until [ -e {tmp_path}/go ]; do sleep 0.1; done; "
        f"for i in $(seq {half + 1} {EACH}); do echo input-NUMBER $i; done"
    )
    body = f"""
    PyTorchJobOperator.partial(task_id="train", **JOB).expand(
        command=[{command!r}.replace("NUMBER", str(number)) for number in range({MAPPED})]
    )
    """
    add_training_dag(stack, "op_mapped_killed", body)
    run = stack.trigger("op_mapped_killed")
    tasks = [run.ti("train", index) for index in range(MAPPED)]
    for index, task in enumerate(tasks):
        task.wait_log(f"[master-0] input-{index} {half}", timeout=120)
    stack.kill_triggerer()
    (tmp_path / "go").touch()
    stack.wait_healthy()
    assert run.wait(150) == "success", run.states()
    for index, task in enumerate(tasks):
        log = task.log()
        assert numbered_lines(log, "master-0", f"input-{index}") == list(range(1, EACH + 1)), log[-3000:]
        assert log.count("[master-0] ") == EACH
        assert task.try_number == 1
    names = {task.xcom()["name"] for task in tasks}
    assert (len(names), len(runs_of(stack, "op-mapped-killed"))) == (MAPPED, MAPPED)


def test_other_triggerer_takes_over_with_each_line_once(pg_stack: AirflowStack) -> None:
    add_training_dag(pg_stack, "op_taken_over", NUMBERS)
    run = pg_stack.trigger("op_taken_over")
    task = run.ti("train")
    task.wait_log(" line 50")
    for name in list(pg_stack.triggerers):
        pg_stack.kill_triggerer(name)
        pg_stack.wait_healthy()
    assert run.wait(180) == "success"
    assert_each_line_once(task)


def test_triggerer_restart_stops_nothing(stack: AirflowStack) -> None:
    body = 'PyTorchJobOperator(task_id="train", command="echo at work; sleep 25", **JOB)'
    add_training_dag(stack, "op_triggerer_restart", body)
    run = stack.trigger("op_triggerer_restart")
    run.ti("train").wait_log("[master-0] at work")
    stack.terminate("triggerer-1")
    stack.start("triggerer-1")
    stack.wait_healthy()
    assert run.wait(120) == "success"
    assert run.ti("train").log().count("[master-0] at work") == 1


def test_attempts_follow_one_another_inside_one_try_with_all_logs_kept(stack: AirflowStack) -> None:
    add_training_dag(stack, "op_attempts", RETRIES)
    run = stack.trigger("op_attempts")
    assert run.wait(150) == "success", run.ti("train").log()
    log = run.ti("train").log()
    for attempt in (1, 2, 3):
        assert log.count(f"[master-0] attempt {attempt} of try 1") == 1
    assert "attempt 2 of 3" in log
    result = run.ti("train").xcom()
    assert result["attempts"] == 3
    assert result["running_seconds"] > 8
    assert len(runs_of(stack, "op-attempts")) == 3


def test_airflow_retry_starts_a_run_of_its_own(stack: AirflowStack) -> None:
    body = """
    PyTorchJobOperator(
        task_id="train", command="[ $AIRFLOW_CTX_TRY_NUMBER = 2 ]", retries=1, retry_delay=timedelta(seconds=1), **JOB
    )
    """
    add_training_dag(stack, "op_retried", body)
    run = stack.trigger("op_retried")
    assert run.wait(120) == "success"
    assert run.ti("train").try_number == 2
    assert "AirflowException" in run.ti("train").log(1)
    assert sorted(str(status.phase) for status in runs_of(stack, "op-retried")) == ["failed", "succeeded"]


def test_worker_killed_between_submit_and_defer_means_a_new_try_that_stops_the_old_run_first(
    stack: AirflowStack,
) -> None:
    add_training_dag(stack, "op_worker_killed", WORKER_DIES_ONCE)
    run = stack.trigger("op_worker_killed")
    assert run.wait(150) == "success", run.ti("train").log()
    found = sorted(runs_of(stack, "op-worker-killed"), key=lambda status: str(status.submitted_at))
    assert [status.phase for status in found] == [Phase.STOPPED, Phase.SUCCEEDED]
    old, new = found
    assert old.ended_at is not None
    assert new.submitted_at is not None
    assert old.ended_at <= new.submitted_at
    assert "of an earlier try still runs: stopping it before this one submits" in run.ti("train").log(2)


def assert_one_run_adopted_in_one_try(stack: AirflowStack, prefix: str, task: TaskInstance) -> None:
    (status,) = runs_of(stack, prefix)
    assert status.phase is Phase.SUCCEEDED
    assert task.try_number == 1
    log = task.log()
    assert f"adopted {status.ref.name}: this try had submitted it before" in log
    assert log.count("[master-0] at work") == 1
    assert task.xcom()["name"] == status.ref.name


def test_try_that_airflow_runs_again_after_its_submission_adopts_the_run(stack: AirflowStack) -> None:
    add_training_dag(stack, "op_left", LEAVES_ONCE)
    run = stack.trigger("op_left")
    assert run.wait(120) == "success", run.states()
    assert_one_run_adopted_in_one_try(stack, "op-left", run.ti("train"))


def test_dag_file_that_is_broken_for_a_moment_when_a_run_ends_costs_no_second_run(
    stack: AirflowStack, tmp_path: Path
) -> None:
    broken, go = tmp_path / "broken", tmp_path / "go"
    body = f"""
    import os
    if os.path.exists("{broken}"):
        raise RuntimeError("broken for a moment")
    PyTorchJobOperator(task_id="train", command="echo at work; until [ -e {go} ]; do sleep 0.1; done", **JOB)
    """
    add_training_dag(stack, "op_broken", body)
    run = stack.trigger("op_broken")
    task = run.ti("train")
    task.wait_state("deferred")
    task.wait_log("[master-0] at work")
    broken.touch()
    go.touch()
    task.wait_state("up_for_reschedule")
    broken.unlink()
    assert run.wait(120) == "success", task.log()
    assert_one_run_adopted_in_one_try(stack, "op-broken", task)


@pytest.mark.timeout(660)
def test_each_of_a_hundred_jobs_that_are_over_at_once_succeeds_at_its_first_try(stack: AirflowStack) -> None:
    body = f"""
    PyTorchJobOperator.partial(task_id="train", max_active_tis_per_dag=4, **JOB).expand(
        command=[f"echo {{n}}" for n in range({QUICK})]
    )
    """
    add_training_dag(stack, "op_quick", body)
    run = stack.trigger("op_quick")
    assert run.wait(600) == "success", run.states()
    assert {task.try_number for task in run.tis()} == {1}
    found = runs_of(stack, "op-quick")
    assert ({status.phase for status in found}, len(found)) == ({Phase.SUCCEEDED}, QUICK)


def test_triggerer_that_was_frozen_while_another_took_over_stops_nothing(pg_stack: AirflowStack) -> None:
    body = 'PyTorchJobOperator(task_id="train", command="echo at work; sleep 75", **JOB)'
    add_training_dag(pg_stack, "op_frozen", body)
    pg_stack.kill("triggerer-2")
    run = pg_stack.trigger("op_frozen")
    run.ti("train").wait_log("[master-0] at work")
    first = [each for each in pg_stack.processes() if "airflow triggerer" in " ".join(each.cmdline())]
    supervising = [each for each in first if each.ppid() not in {other.pid for other in first}]
    assert supervising
    pg_stack.start("triggerer-2")
    for process in supervising:
        process.suspend()
    try:
        wait_until(lambda: run.ti("train").log().count("following ") == 2, timeout=60, what="the other one took over")
    finally:
        for process in supervising:
            process.resume()
    assert run.wait(150) == "success"
    (status,) = runs_of(pg_stack, "op-frozen")
    assert status.phase is Phase.SUCCEEDED
    assert "stopping" not in run.ti("train").log()
