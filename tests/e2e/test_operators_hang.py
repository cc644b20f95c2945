"""A job whose ranks stand still: where each of them stands, another attempt, and then a failure that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.training import add_training_dag, runs_of

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack

BLOCKED_IN = {"master-0": "waits_for_ranks_that_never_join", "worker-0": "reads_a_batch_that_never_comes"}
PROGRAM = """
import os, socket, threading

def waits_for_ranks_that_never_join():
    threading.Event().wait()

def reads_a_batch_that_never_comes():
    here, there = socket.socketpair()
    here.recv(1)

print("rank", os.environ["RANK"], "at work", flush=True)
waits_for_ranks_that_never_join() if os.environ["RANK"] == "0" else reads_a_batch_that_never_comes()
"""


def test_hanging_ranks_are_shown_with_their_stacks_then_tried_again_then_fail_as_hang(stack: AirflowStack) -> None:
    body = f"""
    import shlex

    PyTorchJobOperator(
        task_id="train", command="exec python -c " + shlex.quote({PROGRAM!r}), workers=1, logs="all",
        fault_tolerance={{"max_retries": 1, "retry_on": ["hang"], "hang_timeout": "8s"}}, **JOB,
    )
    """
    add_training_dag(stack, "op_hang", body)
    run = stack.trigger("op_hang")
    assert run.wait(200) == "failed"
    log = run.ti("train").log()
    for replica, function in BLOCKED_IN.items():
        dumps = [part.partition("\n[")[0] for part in log.split(f"stack of {replica}:\n")[1:]]
        assert len(dumps) == 2, log[-6000:]
        assert all(function in dump for dump in dumps)
    for rank, replica in enumerate(BLOCKED_IN):
        assert log.count(f"[{replica}] rank {rank} at work") == 2
    result = run.ti("train").xcom()
    assert result["failure"]["category"] == "hang"
    assert result["attempts"] == 2
    assert len(runs_of(stack, "op-hang")) == 2
