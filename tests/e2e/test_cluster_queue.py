"""Tasks that share a queue of a cluster: where they stand, who goes first, and many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.airflow_stack import wait_until
from tests.control_plane.queues import GPU, Quota

if TYPE_CHECKING:
    from tests.e2e.on_cluster import OnCluster

MANY = 50


def test_task_shows_its_place_in_the_queue_while_others_run(cluster: OnCluster) -> None:
    cluster.on_fake_nodes(gpus=1)
    first = cluster.start("cl_first", 'PyTorchJobOperator(task_id="train", **FAKE)')
    first.ti("train").wait_log("running: 1 replica")
    second = cluster.start("cl_second", 'PyTorchJobOperator(task_id="train", kubernetes=fake(2), **FAKE)')
    second.ti("train").wait_log(", position 1: ")
    third = cluster.start("cl_third", 'PyTorchJobOperator(task_id="train", kubernetes=fake(2), **FAKE)')
    log = third.ti("train").wait_log(", position 2: ")
    assert "insufficient" in log, log
    first.ti("train").mark("success")
    assert second.wait(120) == "success"
    assert third.wait(120) == "success"
    assert third.ti("train").xcom()["queued_seconds"] > 0
    levels = [one.get("level") for one in third.ti("train").events()]
    assert "info" in levels
    assert not {"error", "critical"} & set(levels), log  # to wait for one's turn is no fault


def test_preempted_task_waits_and_goes_on_inside_the_same_try(cluster: OnCluster) -> None:
    queues = cluster.queues
    quota: Quota = {"cpu": 100, "memory": "100Gi", GPU: 1}
    flavors = {queues.flavor(): quota}
    queue = queues.local_queue(queues.cluster_queue(flavors, preemption={"withinClusterQueue": "LowerPriority"}))
    priorities = {"low": queues.priority(10), "high": queues.priority(1000)}
    cluster.connect(queue, catalog={"priorities": priorities})
    low = cluster.start("cl_low", 'PyTorchJobOperator(task_id="train", priority="low", kubernetes=fake(20), **FAKE)')
    low.ti("train").wait_log("running: 1 replica")
    high = cluster.start("cl_high", 'PyTorchJobOperator(task_id="train", priority="high", kubernetes=fake(3), **FAKE)')
    low.ti("train").wait_log("preempted by a job of higher priority in the same queue")
    assert high.wait(120) == "success", high.ti("train").log()
    assert low.wait(120) == "success", low.ti("train").log()
    assert low.ti("train").try_number == 1
    assert low.ti("train").xcom()["name"] in cluster.names()
    assert low.ti("train").log().count("running: 1 replica") == 2
    assert high.ti("train").xcom()["name"] in cluster.names()
    assert len(cluster.names()) == 2


@pytest.mark.timeout(400)
def test_mapped_task_runs_one_job_an_input(cluster: OnCluster) -> None:
    cluster.on_fake_nodes(gpus=MANY)
    body = f"""
    fields = {{name: value for name, value in FAKE.items() if name != "command"}}
    commands = [f"train --input {{number}}" for number in range({MANY})]
    PyTorchJobOperator.partial(task_id="train", kubernetes=fake(2), **fields).expand(command=commands)
    """
    run = cluster.start("cl_mapped", body)
    assert run.wait(380) == "success", run.states()
    names = {run.ti("train", index).xcom()["name"] for index in range(MANY)}
    assert len(names) == MANY
    assert set(cluster.names()) == names


def test_two_tasks_with_one_fixed_name_get_a_job_each(cluster: OnCluster) -> None:
    cluster.on_fake_nodes(gpus=2)
    body = """
    for task_id in ("one", "two"):
        PyTorchJobOperator(task_id=task_id, name_prefix="fixed", **FAKE)
    """
    run = cluster.start("cl_fixed", body)
    for task_id in ("one", "two"):
        run.ti(task_id).wait_log("running: 1 replica")
    names = wait_until(cluster.names, timeout=5, what="jobs are there")
    assert len(names) == 2
    assert all(name.startswith("fixed-") for name in names)
    run.ti("one").mark("failed")
    wait_until(lambda: len(cluster.names()) == 1, timeout=60, what="one of the jobs is gone")
    assert run.ti("two").state == "deferred"
    run.ti("two").mark("success")
    cluster.wait_gone()
