"""Training on a cluster's real node, by a real Airflow: what a user sees when all goes well, and when not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.on_cluster import OnCluster

DDP = """
python3 - <<'END'
import json, os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 2) * dist.get_rank()).sum().backward()
    optimizer.step()
total = sum(float(each.detach().sum()) for each in model.parameters())
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {total:.4f}", flush=True)
if dist.get_rank() == 0:
    with open(os.environ["SIFLOW_RESULTS"], "w") as file:
        json.dump({"total": round(total, 4)}, file)
dist.destroy_process_group()
END
"""
SQUARES = """
python - <<'END'
import ray
ray.init()
@ray.remote
def square(n):
    return n * n
print("squares", ray.get([square.remote(n) for n in range(4)]))
END
echo '{"loss": 0.5}' > "$SIFLOW_RESULTS"
"""


def test_data_parallel_training_shows_each_rank_and_gives_its_results(cluster: OnCluster) -> None:
    cluster.on_real_node()
    run = cluster.start(
        "cl_success",
        f"""
        PyTorchJobOperator(
            task_id="train", command={DDP!r}, image="torch:test", workers=2, logs="all",
            compute=compute(cpu="300m", memory="512Mi"), **ON,
        )
        """,
    )
    run.ti("train").wait_state("deferred")
    assert run.wait(180) == "success", run.ti("train").log()
    log, result = run.ti("train").log(), run.ti("train").xcom()
    total = result["results"]["total"]
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert log.count(f"[{replica}] rank {rank} of 3 has {total:.4f}") == 1
    assert (result["phase"], result["attempts"]) == ("succeeded", 1)
    assert result["running_seconds"] > 0
    assert run.ti("train").xcom("siflow_job")["name"] == result["name"]


def test_ray_training_runs_on_its_own_cluster_and_gives_its_results(cluster: OnCluster) -> None:
    cluster.on_real_node()
    run = cluster.start(
        "cl_ray",
        f"""
        RayJobOperator(
            task_id="train", command={SQUARES!r}, image="ray:test", workers=1,
            compute=compute(cpu="600m", memory="1Gi"), **ON,
        )
        """,
    )
    assert run.wait(240) == "success", run.ti("train").log()
    assert run.ti("train").log().count("[submitter-0] squares [0, 1, 4, 9]") == 1
    assert run.ti("train").xcom()["results"] == {"loss": 0.5}


def test_failing_rank_is_named_with_its_exit_code_and_last_lines(cluster: OnCluster) -> None:
    cluster.on_real_node()
    run = cluster.start(
        "cl_failing_rank",
        """
        PyTorchJobOperator(
            task_id="train", workers=1, command="[ $RANK = 0 ] && sleep 60; echo no more data >&2; exit 3", **REAL,
        )
        """,
    )
    assert run.wait(120) == "failed"
    failure, log = run.ti("train").xcom()["failure"], run.ti("train").log()
    assert (failure["category"], failure["exit_code"]) == ("code", 3), log
    assert (failure["replica"], failure["rank"]) == ("worker-0", 1)
    assert "no more data" in failure["last_lines"]
    assert "last lines of worker-0" in log
    assert "AirflowException" in log


def test_training_that_needs_more_memory_than_it_asked_for_is_told_so(cluster: OnCluster) -> None:
    cluster.on_real_node()
    body = """
    PyTorchJobOperator(task_id="train", command="echo begun; python3 -c 'len(b\\"x\\" * (300 << 20))'", **REAL)
    """
    run = cluster.start("cl_memory", body)
    assert run.wait(120) == "failed"
    failure = run.ti("train").xcom()["failure"]
    assert (failure["category"], failure["exit_code"]) == ("out-of-memory", 137), run.ti("train").log()
    assert "memory" in failure["hint"]
