"""Whatever of Airflow dies, a run on the cluster is followed to its end: one job, each line once, none ever gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.control_plane.volumes import claim
from tests.e2e.growing_log import expect_growing_log, held_task
from tests.e2e.training import numbered_lines

if TYPE_CHECKING:
    from tests.e2e.on_cluster import OnCluster

COUNT = 300
NUMBERS = f"""
PyTorchJobOperator(
    task_id="train",
    command="for i in $(seq 1 {COUNT}); do echo line $i; sleep 0.1; done",
    workers=1, logs="all", **REAL,
)
"""


def test_each_line_is_in_the_log_once_though_the_triggerer_is_killed(cluster: OnCluster) -> None:
    cluster.on_real_node()
    run = cluster.start("cl_triggerer_killed", NUMBERS)
    task = run.ti("train")
    task.wait_log(" line 50")
    cluster.stack.kill_triggerer()
    cluster.stack.wait_healthy()
    assert run.wait(180) == "success", task.log()
    log = task.log()
    for replica in ("master-0", "worker-0"):
        assert numbered_lines(log, replica, "line") == list(range(1, COUNT + 1)), log[-3000:]
    assert cluster.names() == [task.xcom()["name"]]


def test_nothing_goes_away_from_the_log_while_a_task_runs_defers_resumes_retries_and_ends(
    cluster: OnCluster, tmp_path: Path
) -> None:
    cluster.on_real_node()
    with claim(cluster.queues.admin, cluster.queues.namespace, tmp_path) as name:
        fields = f'volumes=[{{"name": "pvc:{name}", "mount_path": "/mnt/gates"}}], **REAL'
        run = cluster.start("cl_log_kept", held_task(tmp_path, fields=fields, inside="/mnt/gates"))
        expect_growing_log(run, tmp_path)
