"""The operators on a real Airflow with the platform backend, on the fake platform: one task, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.airflow_stack import AirflowStack, wait_until
from tests.e2e.fake_platform import KEY_SECRET, STOP, FakePlatform, add_platform_dag, serve
from tests.e2e.training import WORKER_DIES_ONCE, numbered_lines

LOST = {"method": "POST", "path": "/tasks$", "after": True}
AT_WORK = 'PyTorchJobOperator(task_id="train", command="echo at work; sleep 600", workers=1, **JOB)'
COUNT = 200
CANARY = "hidden-c4n4ry-of-a-task"


@pytest.fixture(scope="module")
def fake(stack: AirflowStack) -> Iterator[FakePlatform]:
    with serve(stack) as served:
        yield served


def wait_statuses(fake: FakePlatform, prefix: str, *expected: str) -> None:
    """Wait until the tasks of that name have these statuses, oldest first."""
    wait_until(
        lambda: [row["status"] for row in fake.tasks(prefix)] == list(expected),
        timeout=90,
        what=f"{prefix}* are {expected}",
        describe=lambda: str([(row["name"], row["status"]) for row in fake.tasks(prefix)]),
    )


def test_task_succeeds_deferred_with_its_lines_and_results(stack: AirflowStack, fake: FakePlatform) -> None:
    token = stack.settings.home / "platform_token"
    token.write_text(CANARY)
    body = '''
    from pathlib import Path

    PyTorchJobOperator(
        task_id="train",
        command=(
            "echo hello from rank $RANK of $WORLD_SIZE; echo token $TOKEN; sleep 8; "
            """[ $RANK = 1 ] || echo '{"accuracy": 0.5}' > $SIFLOW_RESULTS"""
        ),
        env={"TOKEN": {"value": Path("TOKEN_FILE").read_text(), "hidden": True}},  # Airflow stores this text
        workers=1,
        **JOB,
    )
    '''
    add_platform_dag(stack, "pf_success", body.replace("TOKEN_FILE", str(token)))
    run = stack.trigger("pf_success")
    run.ti("train").wait_state("deferred")
    waiting = stack.db_dump()
    assert "siflow_provider.triggers.run.RunTrigger" in waiting  # the row is gone once the task goes on
    assert CANARY not in waiting
    assert KEY_SECRET not in waiting
    assert run.wait(150) == "success", run.ti("train").log()
    log = run.ti("train").log()
    assert log.count("[master-0] hello from rank 0 of 2") == 1
    assert log.count("[worker-0] hello from rank 1 of 2") == 1
    result = run.ti("train").xcom()
    assert (result["phase"], result["attempts"], result["results"]) == ("succeeded", 1, {"accuracy": 0.5})
    assert [row["status"] for row in fake.tasks("pf-success")] == ["Succeeded"]
    assert "[master-0] token ***" in log
    after = log + stack.db_dump()
    assert CANARY not in after
    assert KEY_SECRET not in after


def test_failing_rank_is_named_with_its_exit_code_and_last_lines(stack: AirflowStack, fake: FakePlatform) -> None:
    body = """
    PyTorchJobOperator(
        task_id="train", command="[ $RANK = 0 ] && sleep 60; echo wrong input; exit 3", workers=1, **JOB
    )
    """
    add_platform_dag(stack, "pf_failure", body)
    run = stack.trigger("pf_failure")
    assert run.wait(150) == "failed"
    log = run.ti("train").log()
    assert "worker-0 (rank 1) ended with exit code 3" in log
    assert "wrong input" in log
    assert [row["status"] for row in fake.tasks("pf-failure")] == ["Failed"]


def test_marking_the_task_failed_stops_it_on_the_platform(stack: AirflowStack, fake: FakePlatform) -> None:
    add_platform_dag(stack, "pf_stopped", AT_WORK)
    run = stack.trigger("pf_stopped")
    run.ti("train").wait_log("[master-0] at work")
    run.ti("train").mark("failed")
    wait_statuses(fake, "pf-stopped", "Stopped")


def test_task_marked_failed_is_stopped_in_the_end_though_the_platform_fails_for_a_while(
    stack: AirflowStack, fake: FakePlatform
) -> None:
    created, stopped = fake.creations(), fake.requests(*STOP)
    body = AT_WORK.replace("workers=1", "retries=2, retry_delay=timedelta(seconds=1)")
    add_platform_dag(stack, "pf_stop_fails", body)
    run = stack.trigger("pf_stop_fails")
    run.ti("train").wait_log("[master-0] at work")
    fake.change(faults=[{"method": STOP[0], "path": "/tasks/stop$", "status": 500, "times": 6}])
    run.ti("train").mark("failed")
    wait_statuses(fake, "pf-stop-fails", "Stopped")
    assert run.wait(60) == "failed"
    assert fake.requests(*STOP) == stopped + 7  # six that failed, and the one that went through
    assert fake.creations() == created + 1
    assert (run.ti("train").state, run.ti("train").try_number) == ("failed", 1)


def test_lost_answer_to_the_creation_and_a_listing_a_minute_behind_leave_one_task(
    stack: AirflowStack, fake: FakePlatform
) -> None:
    before = fake.creations()
    fake.change(visibility_seconds=60, faults=[{**LOST, "status": 504}])
    add_platform_dag(stack, "pf_lag", 'PyTorchJobOperator(task_id="train", command="echo once", **JOB)')
    run = stack.trigger("pf_lag")
    assert run.wait(240) == "success", run.ti("train").log()
    assert "the answer to a creation was lost" in run.ti("train").log()
    assert run.ti("train").log().count("[master-0] once") == 1
    assert fake.creations() == before + 1
    assert [row["status"] for row in fake.tasks("pf-lag")] == ["Succeeded"]


def test_answer_that_never_comes_leaves_one_task(stack: AirflowStack, fake: FakePlatform) -> None:
    before = fake.creations()
    fake.change(faults=[{**LOST, "hang_seconds": 60}])
    add_platform_dag(stack, "pf_silence", 'PyTorchJobOperator(task_id="train", command="echo once", **JOB)')
    run = stack.trigger("pf_silence")
    assert run.wait(180) == "success", run.ti("train").log()
    assert fake.creations() == before + 1
    assert [row["status"] for row in fake.tasks("pf-silence")] == ["Succeeded"]


def test_killed_triggerer_finds_the_task_again_with_each_line_once(stack: AirflowStack, fake: FakePlatform) -> None:
    command = f"for i in $(seq 1 {COUNT}); do echo line $i; sleep 0.2; done"
    add_platform_dag(stack, "pf_killed", f'PyTorchJobOperator(task_id="train", command="{command}", **JOB)')
    run = stack.trigger("pf_killed")
    run.ti("train").wait_log(" line 30")
    stack.kill_triggerer()
    stack.wait_healthy()
    assert run.wait(240) == "success", run.ti("train").log()
    assert numbered_lines(run.ti("train").log(), "master-0", "line") == list(range(1, COUNT + 1))
    assert [row["status"] for row in fake.tasks("pf-killed")] == ["Succeeded"]


def test_worker_killed_behind_the_submission_leaves_no_orphan(stack: AirflowStack, fake: FakePlatform) -> None:
    add_platform_dag(stack, "pf_worker_killed", WORKER_DIES_ONCE)
    run = stack.trigger("pf_worker_killed")
    assert run.wait(240) == "success", run.ti("train").log()
    assert [row["status"] for row in fake.tasks("pf-worker-killed")] == ["Stopped", "Succeeded"]


def test_launching_the_same_try_twice_makes_one_task(stack: AirflowStack, fake: FakePlatform) -> None:
    body = """
    from siflow_provider.core import attempts

    first = attempts.launch

    async def launch_twice(backend, task, context, **options):
        await first(backend, task, context, **options)
        return await first(backend, task, context, **options)

    attempts.launch = launch_twice

    PyTorchJobOperator(task_id="train", command="echo once", **JOB)
    """
    before = fake.creations()
    add_platform_dag(stack, "pf_adopted", body)
    run = stack.trigger("pf_adopted")
    assert run.wait(150) == "success", run.ti("train").log()
    assert "this try had submitted it before" in run.ti("train").log()
    assert fake.creations() == before + 1
