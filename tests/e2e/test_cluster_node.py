"""A real node dies under a real Airflow's training: one attempt is lost, not the try and not what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.control_plane.volumes import claim

if TYPE_CHECKING:
    from tests.control_plane.plane import ControlPlane
    from tests.e2e.on_cluster import OnCluster

CONTROL_PLANE_OPTIONS = ("--real-node",)
LOST_AT, LAST = 3, 5
TRAIN = f"""
echo "attempt $SIFLOW_ATTEMPT begins"
if [ $RANK != 0 ]; then [ $SIFLOW_ATTEMPT = 2 ] || sleep 600; exit; fi
step=$(cat /mnt/checkpoints/step 2>/dev/null || echo 0)
echo "begins at step $step"
while [ $step -lt {LAST} ]; do
  step=$((step + 1)); echo $step > /mnt/checkpoints/step; echo "step $step"
  [ $SIFLOW_ATTEMPT = 2 ] || [ $step -lt {LOST_AT} ] || sleep 600
done
echo "{{\\"steps\\": $step}}" > "$SIFLOW_RESULTS"
"""
BODY = f"""
PyTorchJobOperator(
    task_id="train", command={TRAIN!r}, workers=1, logs="all", fault_tolerance={{"max_retries": 1}},
    volumes=[{{"name": "pvc:CLAIM", "mount_path": "/mnt/checkpoints"}}], **REAL,
)
"""


def failed(own_cluster: OnCluster) -> dict[str, bool]:
    """Return name -> whether it failed, of each job that there is."""
    conditions = {job["metadata"]["name"]: job["status"].get("conditions", []) for job in own_cluster.objects()}
    return {name: any(one["type"] == "Failed" for one in each) for name, each in conditions.items()}


@pytest.mark.timeout(600)
def test_node_that_dies_costs_one_attempt_and_training_goes_on_from_its_checkpoint_once_there_is_a_node_again(
    own_cluster: OnCluster, own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    with claim(own_cluster.queues.admin, own_cluster.queues.namespace, tmp_path) as name:
        own_cluster.on_real_node()
        run = own_cluster.start("cl_node_dies", BODY.replace("CLAIM", name))
        task = run.ti("train")
        task.wait_log("[worker-0] attempt 1 begins", timeout=180)
        task.wait_log(f"[master-0] step {LOST_AT}")
        (first,) = own_cluster.names()
        own_control_plane.kill("node")
        # the logs of the lost node can't be read, and nobody waits for them: it is not back yet
        log = task.wait_log("attempt 2 of 2 in 1 s: node-lost: ", timeout=180)
        assert "Node lost: the pod was removed from a node that is not ready" in log
        own_control_plane.start("node")
        assert run.wait(240) == "success", task.log()
        log, result = task.log(), task.xcom()
        assert task.try_number == 1
        assert (result["attempts"], result["results"]) == (2, {"steps": LAST})
        assert failed(own_cluster) == {first: True, result["name"]: False}
        for replica in ("master-0", "worker-0"):
            assert [log.count(f"[{replica}] attempt {number} begins") for number in (1, 2)] == [1, 1]
        for text in ("begins at step 0", f"begins at step {LOST_AT}", f"step {LAST}"):
            assert log.count(f"[master-0] {text}\n") == 1, log
