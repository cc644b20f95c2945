"""The operators on a real Airflow with the embedded backend: what a user sees when all goes well, and when not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.airflow_stack import AirflowStack, wait_until
from scripts.airflow_stack.run import TaskInstance
from tests.e2e.training import add_training_dag, runs_of

OF_EACH_RUN = ("name", "uid", "queued_seconds", "running_seconds")
MODES = {"deferred": True, "sync": False}
STEPS = """
[ $RANK = 1 ] || { sleep 3; exit; }
for i in 1 2 3; do echo step $i of rank $RANK; sleep 0.5; done
echo '::siflow-result:: {"loss": 0.5}'
exit END
"""


@pytest.mark.floor
def test_deferrable_task_shows_its_lines_and_gives_its_results(stack: AirflowStack) -> None:
    add_training_dag(
        stack,
        "op_success",
        '''
        PyTorchJobOperator(
            task_id="train",
            command=(
                "echo hello from rank $RANK of $WORLD_SIZE; sleep 4; "
                """[ $RANK = 1 ] || echo '{"accuracy": 0.5}' > $SIFLOW_RESULTS"""
            ),
            workers=1,
            logs="all",
            **JOB,
        )
        ''',
    )
    run = stack.trigger("op_success")
    run.ti("train").wait_state("deferred")
    assert run.wait(90) == "success", run.ti("train").log()
    log = run.ti("train").log()
    assert log.count("[master-0] hello from rank 0 of 2") == 1
    assert log.count("[worker-0] hello from rank 1 of 2") == 1
    result = run.ti("train").xcom()
    assert result["phase"] == "succeeded"
    assert result["attempts"] == 1
    assert result["results"] == {"accuracy": 0.5}
    assert run.ti("train").xcom("siflow_job")["name"] == result["name"]


@pytest.mark.floor
def test_failing_rank_is_named_with_its_exit_code_and_last_lines(stack: AirflowStack) -> None:
    add_training_dag(
        stack,
        "op_failing_rank",
        """
        for mode in (True, False):
            PyTorchJobOperator(
                task_id=f"train_{mode}".lower(),
                command="[ $RANK = 0 ] && sleep 60; echo step 1; echo step 2; echo no more data >&2; exit 3",
                workers=1,
                deferrable=mode,
                **JOB,
            )
        """,
    )
    run = stack.trigger("op_failing_rank")
    assert run.wait(120) == "failed"
    told = []
    for name in ("train_true", "train_false"):
        log = run.ti(name).log()
        failure = run.ti(name).xcom()["failure"]
        assert failure["category"] == "code"
        assert failure["exit_code"] == 3
        assert failure["replica"] == "worker-0"
        assert failure["rank"] == 1
        assert "no more data" in failure["last_lines"]
        assert "last lines of worker-0" in log
        assert "AirflowException" in log
        told.append({key: failure[key] for key in ("category", "summary", "last_lines", "hint")})
    assert told[0] == told[1]
    assert len(runs_of(stack, "op-failing-rank")) == 2


def told(task: TaskInstance) -> dict[str, Any]:
    """Return what a task tells its user, without what differs from run to run: its name and its times."""
    result, name = task.xcom(), task.xcom("siflow_job")["name"]
    events = task.events()
    raised = [error["exc_value"] for one in events for error in one.get("error_detail") or []]
    return {
        "state": task.state,
        "result": {key: value for key, value in result.items() if key not in OF_EACH_RUN},
        "lines": [one["event"] for one in events if one["event"].startswith("[")],
        "raised": [text.replace(name, "NAME") for text in raised],
    }


def test_sync_and_deferrable_tasks_give_the_same_results_lines_and_errors(stack: AirflowStack) -> None:
    add_training_dag(
        stack,
        "op_modes",
        f"""
        for mode, deferrable in {MODES!r}.items():
            for end in (0, 3):
                PyTorchJobOperator(
                    task_id=f"{{mode}}_{{end}}", command={STEPS!r}.replace("END", str(end)), workers=1,
                    logs=["worker-0"], deferrable=deferrable, **JOB,
                )
        """,
    )
    run = stack.trigger("op_modes")
    assert run.wait(120) == "failed"
    for end in (0, 3):
        deferred, sync = (told(run.ti(f"{mode}_{end}")) for mode in MODES)
        assert deferred == sync
        assert deferred["state"] == ("failed" if end else "success")
        assert "[worker-0] step 3 of rank 1" in deferred["lines"]
        assert len(deferred["raised"]) == (1 if end else 0)


def test_links_lead_to_what_runs_and_nowhere_once_it_has_ended(stack: AirflowStack, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    add_training_dag(
        stack,
        "op_links",
        f"""
        for mode, deferrable in {MODES!r}.items():
            PyTorchJobOperator(
                task_id=mode, deferrable=deferrable, monitoring={{"port": 19097, "path": "/of-the-job"}},
                command="until [ -e {gate} ]; do sleep 0.1; done", **JOB,
            )
        """,
    )
    run = stack.trigger("op_links")
    nowhere = dict.fromkeys(("Dashboard", "Job", "Logs", "Metrics"))
    there = {**nowhere, "Metrics": "http://127.0.0.1:19097/of-the-job"}
    for mode, state in {"deferred": "deferred", "sync": "running"}.items():
        task = run.ti(mode)
        task.wait_state(state)
        wait_until(lambda task=task: task.links() == there, timeout=60, what=f"{mode} is linked")  # type: ignore[misc]
        assert task.state == state
    gate.touch()
    assert run.wait(90) == "success"
    assert [run.ti(mode).links() for mode in MODES] == [nowhere, nowhere]


def test_mapped_task_runs_one_job_an_input(stack: AirflowStack) -> None:
    add_training_dag(
        stack,
        "op_mapped",
        """
        @task
        def inputs() -> list[str]:
            return [f"echo input-{number}; sleep 2" for number in range(10)]

        PyTorchJobOperator.partial(task_id="train", **JOB).expand(command=inputs())
        """,
    )
    run = stack.trigger("op_mapped")
    assert run.wait(200) == "success", run.states()
    names = {run.ti("train", index).xcom()["name"] for index in range(10)}
    assert len(names) == 10
    for index in range(10):
        log = run.ti("train", index).log()
        assert log.count(f"[master-0] input-{index}") == 1
        assert log.count("[master-0] input-") == 1
    assert len(runs_of(stack, "op-mapped-train")) == 10
