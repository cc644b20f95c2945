"""Whatever ends the Airflow task ends its run on the cluster: job and pods are gone soon, and never two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scripts.airflow_stack.run import Run
    from tests.control_plane.plane import ControlPlane, Request
    from tests.e2e.on_cluster import OnCluster

LONG = 'PyTorchJobOperator(task_id="train", command="echo at work; sleep 600", workers=1, **REAL)'


def deferred(cluster: OnCluster, name: str, body: str = LONG) -> Run:
    cluster.on_real_node()
    run = cluster.start(name, body)
    run.ti("train").wait_state("deferred")
    run.ti("train").wait_log("[master-0] at work", timeout=120)
    assert len(cluster.names()) == 1
    return run


def requests(plane: ControlPlane, verb: str, name: str) -> list[Request]:
    """Return what was asked of the API server about the job of that name."""
    asked = plane.requests("siflow-provider")
    return [each for each in asked if (each.verb, each.resource, each.name) == (verb, "pytorchjobs", name)]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_a_deferred_task_removes_its_job_once_and_says_so(
    cluster: OnCluster, control_plane: ControlPlane, state: str
) -> None:
    run = deferred(cluster, f"cl_marked_{state}")
    (name,) = cluster.names()
    run.ti("train").mark(state)
    cluster.wait_gone()
    run.ti("train").wait_log(f"the task was marked {state}: stopping {name}")
    assert run.ti("train").state == state
    assert [each.code for each in requests(control_plane, "delete", name)] == [200]


def test_failing_the_whole_dag_run_removes_the_job_once(cluster: OnCluster, control_plane: ControlPlane) -> None:
    run = deferred(cluster, "cl_run_failed")
    (name,) = cluster.names()
    run.mark("failed")
    cluster.wait_gone()
    run.ti("train").wait_log(f": stopping {name}")
    assert [each.code for each in requests(control_plane, "delete", name)] == [200]


def test_after_a_clear_the_old_job_is_removed_once_before_the_new_one_is_made(
    cluster: OnCluster, control_plane: ControlPlane
) -> None:
    run = deferred(cluster, "cl_cleared", LONG.replace("sleep 600", "[ $AIRFLOW_CTX_TRY_NUMBER = 2 ] || sleep 600"))
    (old,) = cluster.names()
    run.ti("train").clear()
    assert run.wait(120) == "success", run.ti("train").log()
    assert run.ti("train").try_number == 2
    assert old not in cluster.names()
    new = run.ti("train").xcom()["name"]
    assert new != old
    assert old in run.ti("train").log(1) + run.ti("train").log(2)
    deleted = requests(control_plane, "delete", old)
    (made,) = requests(control_plane, "create", new)
    # the new try and the triggerer may both ask for it; what is deleted is deleted by the first
    assert [each.code for each in deleted].count(200) == 1
    assert min(each.time for each in deleted) < made.time


def test_execution_timeout_counts_the_deferred_time_and_removes_the_job(cluster: OnCluster) -> None:
    run = deferred(cluster, "cl_timeout", LONG.replace("workers=1", "execution_timeout=timedelta(seconds=25)"))
    assert run.wait(90) == "failed"
    assert "timeout: " in run.ti("train").log()
    cluster.wait_gone()
