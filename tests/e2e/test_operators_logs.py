"""The task log: all lines, however many and however long they are, and nothing that was there goes away."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from scripts.airflow_stack import wait_until
from tests.e2e.growing_log import expect_growing_log, held_task
from tests.e2e.training import add_training_dag, numbered_lines

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import Run

FLOOD = 20_000
LONG_LINE_NUMBERS = 800_000
LONG_LINE_BYTES = 5_000_000
MAX_GROWTH_BYTES = 150 * 1024 * 1024


def released_when_deferred(stack: AirflowStack, name: str, command: str, gate: Path) -> Run:
    """Start a job that waits for the file `gate`, and make that once the triggerer follows it."""
    program = f"echo waiting; until [ -e {gate} ]; do sleep 0.1; done; {command}"
    add_training_dag(stack, name, f'PyTorchJobOperator(task_id="train", command={program!r}, logs="all", **JOB)')
    run = stack.trigger(name)
    run.ti("train").wait_state("deferred")
    run.ti("train").wait_log("[master-0] waiting")
    return run


def test_all_lines_of_a_job_that_prints_20000_and_fails_at_once_are_in_the_log(
    stack: AirflowStack, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    run = released_when_deferred(stack, "log_flood", f"seq -f 'line %.0f' 1 {FLOOD}; exit 1", gate)
    gate.touch()
    assert run.wait(200) == "failed"
    log = run.ti("train").log()
    assert numbered_lines(log, "master-0", "line") == list(range(1, FLOOD + 1))
    failure = run.ti("train").xcom()["failure"]
    assert failure["exit_code"] == 1
    assert failure["last_lines"][-1] == f"line {FLOOD}"


def triggerer_memory(stack: AirflowStack) -> int:
    """Return the resident bytes of the triggerer's processes."""
    total = 0
    for process in stack.processes():
        with suppress(psutil.NoSuchProcess):
            if "airflow triggerer" in " ".join(process.cmdline()):
                total += process.memory_info().rss
    return total


def test_one_line_of_5_megabytes_comes_whole_and_the_triggerer_stays_small(stack: AirflowStack, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    line = ",".join(map(str, range(1, LONG_LINE_NUMBERS + 1)))[:LONG_LINE_BYTES]
    command = f"echo begins; seq -s, 1 {LONG_LINE_NUMBERS} | head -c {LONG_LINE_BYTES}; echo; echo ends"
    run = released_when_deferred(stack, "log_long_line", command, gate)
    before = triggerer_memory(stack)
    assert before > 0
    most = before
    gate.touch()

    def ended() -> bool:
        nonlocal most
        most = max(most, triggerer_memory(stack))
        return run.state in ("success", "failed")

    wait_until(ended, timeout=200, what="the run ends", describe=lambda: str(run.states()))
    assert run.state == "success"
    head = "[master-0] "
    texts = [one["event"].removeprefix(head) for one in run.ti("train").events() if one["event"].startswith(head)]
    pieces = texts[texts.index("begins") + 1 : texts.index("ends")]
    assert len(pieces) > 1
    assert "".join(pieces) == line
    assert most - before < MAX_GROWTH_BYTES


def test_nothing_goes_away_from_the_log_while_a_task_runs_defers_resumes_retries_and_ends(
    stack: AirflowStack, tmp_path: Path
) -> None:
    add_training_dag(stack, "log_kept", held_task(tmp_path, fields="**JOB"))
    expect_growing_log(stack.trigger("log_kept"), tmp_path)
