"""The stack runner itself: what the other end-to-end tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from scripts.airflow_stack import AirflowStack, StackError, wait_until

BASH_DAG = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("{name}", schedule=None):
    BashOperator(task_id="say", bash_command="{command}")
"""


@pytest.mark.floor
def test_task_runs_through_the_scheduler_and_its_log_can_be_read(stack: AirflowStack) -> None:
    stack.add_dag("says_hello", BASH_DAG.format(name="says_hello", command="echo hello && echo 42"))
    run = stack.trigger("says_hello")
    assert run.wait(60) == "success"
    assert "hello" in run.ti("say").log()
    assert run.ti("say").xcom() == "42"
    assert run.ti("say").rendered["bash_command"] == "echo hello && echo 42"


def test_dag_file_that_cannot_be_imported_is_told_with_its_traceback(stack: AirflowStack) -> None:
    with pytest.raises(StackError, match="wrong on purpose"):
        stack.add_dag("broken", "raise ValueError('wrong on purpose')")
    (stack.dags / "broken.py").unlink()


def test_changed_dag_file_is_read_again(stack: AirflowStack) -> None:
    for command in ("echo first", "echo second"):
        stack.add_dag("changes", BASH_DAG.format(name="changes", command=command))
    run = stack.trigger("changes")
    assert run.wait(60) == "success"
    assert run.ti("say").xcom() == "second"


def test_task_can_be_marked_failed_while_it_runs_and_then_cleared(stack: AirflowStack) -> None:
    stack.add_dag("sleeps", BASH_DAG.format(name="sleeps", command="[ {{ ti.try_number }} = 2 ] || sleep 300"))
    run = stack.trigger("sleeps")
    task = run.ti("say")
    task.wait_state("running")
    task.mark("failed")
    assert run.wait(60) == "failed"
    task.clear()
    assert run.wait(60) == "success"
    assert task.try_number == 2


def test_lost_worker_fails_the_task(stack: AirflowStack) -> None:
    stack.add_dag("loses_worker", BASH_DAG.format(name="loses_worker", command="sleep 300"))
    run = stack.trigger("loses_worker")
    run.ti("say").wait_state("running")
    wait_until(lambda: list(run.ti("say").processes()), timeout=30, what="the worker has said its number")
    run.ti("say").kill_worker()
    assert run.wait(90) == "failed"


def test_killed_triggerer_comes_back_and_resumes_the_deferred_task(stack: AirflowStack) -> None:
    source = """
    from datetime import timedelta
    from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
    from airflow.sdk import DAG

    with DAG("defers", schedule=None):
        TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=15), deferrable=True)
    """
    stack.add_dag("defers", textwrap.dedent(source))
    run = stack.trigger("defers")
    run.ti("wait").wait_state("deferred")
    stack.kill_triggerer()
    stack.wait_healthy()
    assert run.wait(120) == "success"


def test_database_dump_holds_what_tasks_stored(stack: AirflowStack) -> None:
    stack.add_dag("leaves_canary", BASH_DAG.format(name="leaves_canary", command="echo canary-7391"))
    assert stack.trigger("leaves_canary").wait(60) == "success"
    assert "canary-7391" in stack.db_dump()


def test_postgres_stack_runs_tasks_with_two_triggerers(pg_stack: AirflowStack) -> None:
    pg_stack.add_dag("on_postgres", BASH_DAG.format(name="on_postgres", command="echo from postgres"))
    assert pg_stack.trigger("on_postgres").wait(90) == "success"
    names = [" ".join(one.cmdline()) for one in pg_stack.processes()]
    assert len([name for name in names if "airflow triggerer" in name]) >= 2
    assert "from postgres" in pg_stack.db_dump()


STARTER = """
import sys, time
from pathlib import Path
from scripts.airflow_stack.keeper import Keeper

home = Path(sys.argv[1])
(home / "temporary" / "data").mkdir(parents=True)
programs = {{
    "plain": ["sleep", "1001"],
    "detaches": ["bash", "-c", "setsid setsid sleep 1002 & sleep 1003"],
    "stubborn": ["bash", "-c", "trap '' TERM; while :; do sleep 1004; done"],
}}
with Keeper(home) as keeper:
    for name, argv in programs.items():
        keeper.start(name, argv, {{"PATH": "/usr/bin:/bin"}}, log=home / "log", remove=str(home / "temporary"))
    while len(keeper.processes()) < 6:
        time.sleep(0.05)
    print(keeper.pid, *[one.pid for one in keeper.processes()], flush=True)
    {end}
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_however_the_starter_is_killed_no_process_is_left(tmp_path: Path, number: signal.Signals) -> None:
    code = STARTER.format(end="time.sleep(600)")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        os.kill(starter.pid, number)
        starter.wait(60)
    assert len(pids) >= 6
    assert_gone(pids)
    assert not (tmp_path / "temporary").exists()


def test_exception_in_the_starter_leaves_no_process(tmp_path: Path) -> None:
    code = STARTER.format(end="raise ValueError('on purpose')")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "on purpose" in done.stderr
    assert_gone([int(word) for word in done.stdout.split()])


def test_second_stack_in_the_same_home_is_refused(tmp_path: Path) -> None:
    from scripts.airflow_stack.keeper import Keeper

    with Keeper(tmp_path), pytest.raises(StackError, match="is up already"), Keeper(tmp_path):
        pytest.fail("two stacks in one home")


KEEPING_STARTER = """
import sys
from pathlib import Path
from scripts.airflow_stack.keeper import Keeper

with Keeper(Path(sys.argv[1])) as keeper:
    keeper.start("plain", ["sleep", "1001"], {"PATH": "/usr/bin:/bin"}, log=Path(sys.argv[1]) / "log")
    keeper.keep()
"""


def test_who_reads_the_output_of_a_starter_that_keeps_its_stack_sees_the_end(tmp_path: Path) -> None:
    from scripts.airflow_stack.keeper import stop_kept

    try:
        done = subprocess.run(
            [sys.executable, "-c", KEEPING_STARTER, str(tmp_path)],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        was_up = stop_kept(tmp_path)
    assert was_up


def assert_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), timeout=30, what=f"no process of {pids} is left")
