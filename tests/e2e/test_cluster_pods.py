"""Training in real containers of a real node, by a real Airflow: what a user sees when all goes well, and when not.

All are tasks of one DAG run, on the node at the same time.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.airflow_stack import wait_until
from tests.control_plane.queues import own_place
from tests.control_plane.volumes import claim
from tests.e2e.on_cluster import OnCluster
from tests.e2e.pod_programs import DDP, SHARE, SSH
from tests.unit.backends.kubernetes.test_command import NASTY, SHOW_ARGV, quoted

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from scripts.airflow_stack.run import Run
    from tests.control_plane.admin import Admin
    from tests.control_plane.plane import ControlPlane

COLOUR = "grün `id` $(id)"
ARGV = shlex.join(["python3", "-c", SHOW_ARGV, *NASTY])
QUOTED = f"set -u\nfor each in 1 2; do\n  python3 -c {quoted(SHOW_ARGV)} \"$each\" 'it''s' {quoted(NASTY[3])}\ndone"
BODY = f"""
def tiny(**more):
    compute = {{"type": "on_demand", "instances": ["tiny"]}}
    return {{"image": "base:test", "compute": compute, **ON, **more}}

PyTorchJobOperator(
    task_id="ddp", command={DDP!r}, workers=2, logs="all", fault_tolerance={{"max_retries": 1}},
    volumes=[{{"name": "pvc:CLAIM", "sub_path": "ddp", "mount_path": "/mnt/checkpoints"}}], **tiny(image="torch:test"),
)
@task.ray_job(
    image="ray:test", workers=1, compute=compute(cpu="400m", memory="1Gi"),
    ray={{
        "head": {{"instance": {{"cpu": "500m", "memory": "1Gi"}}}},
        "runtime_env": {{"env_vars": {{"COLOUR": "{COLOUR}"}}}},
        "shared_storage": {{"volume": "pvc:CLAIM", "clean_up": True}},
        "autoscaling": {{"min_workers": 1, "max_workers": 2}},
    }},
    kubernetes={{"node_selector": {{"type": "real"}}, "patch": SMALL_AUTOSCALER}}, **ON,
)
def ray():
    return {SHARE!r}

ray()
PyTorchJobOperator(task_id="argv", command={ARGV!r}, **tiny())
PyTorchJobOperator(task_id="quoted", command={QUOTED!r}, **tiny())
PyTorchJobOperator(task_id="memory", command="python3 -c 'len(b\\"x\\" * (600 << 20))'", **tiny())
PyTorchJobOperator(task_id="image", command="true", image_pull_retries=0, **tiny(image="nowhere.invalid/a:1"))
PyTorchJobOperator(task_id="ssh", command={SSH!r}, workers=2, ssh=True, **tiny())
PyTorchJobOperator(
    task_id="hang", command="exec python3 -c 'import time; time.sleep(600)'", workers=1,
    fault_tolerance={{"max_retries": 0, "hang_timeout": "5s"}}, **tiny(),
)
PyTorchJobOperator(
    task_id="code", command="[ $RANK = 0 ] && sleep 60; echo no more data >&2; exit 3", workers=1, **tiny(),
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder behind the tasks' claim."""
    return tmp_path_factory.mktemp("claim")


@pytest.fixture(scope="module")
def run(stack: AirflowStack, control_plane: ControlPlane, admin: Admin, folder: Path) -> Iterator[Run]:
    """Return the DAG run, ended; `tiny` asks for no CPU, so that all tasks run at once, and Ray has no queue."""
    with own_place(admin) as queues, claim(admin, queues.namespace, folder) as name:
        cluster = OnCluster(stack, queues, control_plane.kubeconfig)
        catalog = {
            "instances": {"tiny": {"accelerator": "cpu", "resources": {"memory": "512Mi"}}},
            "queues": [{"type": "on_demand", "instance": "tiny", "queue": queues.queue("real")}],
        }
        cluster.connect(None, catalog=catalog)
        found = cluster.start("cl_pods", BODY.replace("CLAIM", name), dag_args=", max_active_tasks=3")
        found.ti("ddp").wait_state("deferred")
        found.wait(400)
        yield found


def expect_success(run: Run, task: str) -> str:
    """Return the log of a task that succeeded."""
    assert run.ti(task).state == "success", run.ti(task).log()
    return run.ti(task).log()


def test_data_parallel_training_goes_on_from_its_checkpoint_when_a_rank_was_killed(run: Run) -> None:
    log, result = expect_success(run, "ddp"), run.ti("ddp").xcom()
    assert "attempt 2 of 2" in log
    assert (result["phase"], result["attempts"], result["results"]["began"]) == ("succeeded", 2, 2)
    total = result["results"]["total"]
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert log.count(f"[{replica}] rank {rank} of 3 began at step 2 and has {total:.4f}") == 1
    assert result["running_seconds"] > 0
    assert run.ti("ddp").xcom("siflow_job")["name"] == result["name"]


def test_pods_of_a_ray_job_come_when_they_are_needed_and_share_a_volume(run: Run) -> None:
    log = expect_success(run, "ray")
    assert "[submitter-0] 3 pods, {'read it'}, sessions on the volume: {False}, with sockets: {True}" in log
    assert "[submitter-0] ['of-0', 'of-1', 'of-2', 'of-the-driver']" in log
    assert run.ti("ray").xcom()["results"] == {"loss": 0.5}
    assert f"[submitter-0] colour {COLOUR}" in log
    assert "400m CPU is little for a Ray worker" in log
    name = run.ti("ray").xcom()["name"]
    assert run.ti("ray").details["operator_name"] == "@task.ray_job"
    assert re.fullmatch(rf"http://{name}-\S*:8265", run.ti("ray").links()["Dashboard"] or "")


def test_what_a_ray_job_left_on_its_volume_is_removed_after_it(run: Run, folder: Path) -> None:
    expect_success(run, "ray")
    wait_until(lambda: not list(folder.glob("siflow-ray/*")), timeout=90, what="the run's data is removed")
    assert (folder / "ddp" / "last.pt").exists()


def test_every_pod_is_reached_by_ssh_in_the_order_of_ranks(run: Run) -> None:
    log, name = expect_success(run, "ssh"), run.ti("ssh").xcom()["name"]
    told = [line.partition("[master-0] reached ")[2] for line in log.splitlines() if "[master-0] reached " in line]
    assert told == [f"{name}-{role}" for role in ("master-0", "worker-0", "worker-1")]


def test_command_of_words_and_one_of_shell_text_arrive_byte_for_byte(run: Run) -> None:
    assert f"[master-0] {json.dumps(NASTY)}" in expect_success(run, "argv").splitlines()
    log = expect_success(run, "quoted").splitlines()
    for each in ("1", "2"):
        assert f"[master-0] {json.dumps([each, 'its', NASTY[3]])}" in log


def test_training_that_needs_more_memory_than_it_asked_for_is_told_so(run: Run) -> None:
    failure = run.ti("memory").xcom()["failure"]
    assert (run.ti("memory").state, failure["category"], failure["exit_code"]) == (
        "failed", "out-of-memory", 137,
    ), run.ti("memory").log()  # fmt: skip
    assert "memory" in failure["hint"]


def test_image_that_nobody_has_ends_the_task_with_the_registrys_words(run: Run) -> None:
    failure, log = run.ti("image").xcom()["failure"], run.ti("image").log()
    assert (run.ti("image").state, failure["category"], failure["replica"]) == ("failed", "image", "master-0"), log
    assert "nowhere.invalid/a:1" in failure["summary"]
    assert "last lines may be missing" not in log


def test_training_that_hangs_shows_where_each_rank_stands(run: Run) -> None:
    failure, log = run.ti("hang").xcom()["failure"], run.ti("hang").log()
    assert (run.ti("hang").state, failure["category"]) == ("failed", "hang"), log
    for replica in ("master-0", "worker-0"):
        stack = log.partition(f"stack of {replica}:")[2].partition("stack of")[0]
        assert "time.sleep(600)" in stack, log


def test_failing_rank_is_named_with_its_exit_code_and_last_lines(run: Run) -> None:
    failure, log = run.ti("code").xcom()["failure"], run.ti("code").log()
    assert (run.ti("code").state, failure["category"], failure["exit_code"]) == ("failed", "code", 3), log
    assert (failure["replica"], failure["rank"]) == ("worker-0", 1)
    assert "no more data" in failure["last_lines"]
    assert "last lines of worker-0" in log
    assert "AirflowException" in log
