"""A RayJob from submit to its end, on real Ray clusters of this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.ray_leftovers import find_processes
from siflow_provider.core.status import JobRef, Phase
from tests.unit.backends.local.following import stacks_with
from tests.unit.backends.local.ray_tasks import (
    ask,
    family,
    lines_of,
    living,
    ray_task,
    submit,
    temp_dir_of,
    wait_for,
    wait_until,
)

pytestmark = [pytest.mark.ray, pytest.mark.timeout(280)]

AWKWARD = r"""python -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "two words" '$HOME `id`' "$(echo sub)" \
  'Grüße 你好' "a \" and 'b'" \\ `echo tick` "${#TOKEN}"
echo "zero=$0 count=$# plain=$PLAIN"

"""

DRIVER = """
import os, sys, time
import ray
from ray.util.placement_group import placement_group
import greeting

ray.init(log_to_driver=False)
nodes = {node["NodeName"]: node["Resources"].get("CPU", 0) for node in ray.nodes()}
print("nodes", sorted(nodes.items()))
group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=60)
table = ray.util.placement_group_table(group)
print("spread over", len(set(table["bundles_to_node_id"].values())))
where = ray.remote(num_cpus=0)(lambda: (greeting.WORDS, os.environ["COLOUR"], len(os.environ["TOKEN"]))).remote()

def works_until(go):
    while not os.path.exists(go):
        time.sleep(0.1)

def waits_for_its_worker(work):
    print("task saw", ray.get(where), flush=True)
    ray.get(work)

waits_for_its_worker(ray.remote(num_cpus=0)(works_until).remote(sys.argv[1]))
"""


async def test_command_and_runtime_env_reach_a_cluster_of_nodes_that_only_this_user_can_use(
    backend: LocalBackend, state_dir: Path, tmp_path: Path
) -> None:
    canary, go = "c4nary-value-of-a-hidden-variable", tmp_path / "go"
    code = tmp_path / "code"
    code.mkdir()
    (code / "greeting.py").write_text("WORDS = 'hello from working_dir'\n")
    (code / "driver.py").write_text(DRIVER)
    ray = {"runtime_env": {"working_dir": str(code), "env_vars": {"COLOUR": "green"}}}
    command = f"{AWKWARD}python driver.py '{go}'; echo '{{\"best\": 7}}' > $SIFLOW_RESULTS"
    (state_dir / "capacity.json").write_text('{"cpu": 8}')
    task = ray_task(command, workers=1, head_cpu="2", hidden={"TOKEN": canary}, ray=ray)
    ref = await submit(backend, task)

    status = await wait_for(backend, ref, Phase.RUNNING)
    assert status.phase is Phase.RUNNING, (status, await lines_of(backend, ref))
    assert [replica.name for replica in status.replicas] == ["submitter-0", "head-0", "worker-0"]
    log = state_dir / "runs" / ref.name / "logs" / "submitter-0.log"
    await wait_until(lambda: b"task saw" in log.read_bytes())
    await expect_stacks_of_the_users_code(backend, ref)
    expect_loopback_only(family(state_dir, ref))
    expect_token_is_asked_for(status.links["dashboard"], state_dir, ref.name)
    expect_hidden(canary, status.links["dashboard"], state_dir, ref.name, temp_dir_of(state_dir, ref))
    go.touch()

    end = await wait_for(backend, ref)
    lines = await lines_of(backend, ref)
    assert end.phase is Phase.SUCCEEDED, lines
    for line in lines_of_plain_bash(canary):
        assert line in lines
    assert "nodes [('head-0', 2.0), ('worker-0', 1.0)]" in lines
    assert "spread over 2" in lines
    assert f"task saw ('hello from working_dir', 'green', {len(canary)})" in lines
    assert lines[-1] == '::siflow-result:: {"best": 7}'
    assert not (state_dir / "runs" / ref.name / "work" / "ray-temp-dir.json").exists()
    assert (state_dir / "runs" / ref.name / "work" / "ray-logs" / "gcs_server.out").exists()


async def expect_stacks_of_the_users_code(backend: LocalBackend, ref: JobRef) -> None:
    dumps = await stacks_with(backend, ref, "works_until")
    assert sorted(dumps) == ["head-0", "submitter-0", "worker-0"]
    assert "waits_for_its_worker" in dumps["submitter-0"]
    text = "\n".join(dumps.values())
    assert text.count("waits_for_its_worker") == 1
    for word in (
        "ray::IDLE",
        "ray::JobSupervisor",
        "Agent",
        "ray-dashboard",
        "dashboard.py",
        "monitor.py",
        "ray_node.py",
    ):
        assert word not in text


def lines_of_plain_bash(token: str) -> list[str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": programs, "PLAIN": "seen", "TOKEN": token}
    done = subprocess.run(["bash", "-c", AWKWARD], capture_output=True, text=True, check=True, env=env)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    return lines


def expect_loopback_only(processes: list[psutil.Process]) -> None:
    listening = {address for process in processes for address in listening_addresses(process)}
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert "127.0.0.1" in listening


def listening_addresses(process: psutil.Process) -> list[str]:
    try:
        connections = process.net_connections(kind="inet")
    except psutil.NoSuchProcess:
        return []
    return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]


def expect_token_is_asked_for(url: str, state_dir: Path, name: str) -> None:
    file = state_dir / "runs" / name / "work" / "ray-token"
    assert file.stat().st_mode & 0o077 == 0
    assert ask(f"{url}/api/jobs/", None)[0] == 401
    assert ask(f"{url}/api/jobs/", file.read_text())[0] == 200


def expect_hidden(canary: str, url: str, state_dir: Path, name: str, temp_dir: Path) -> None:
    token = (state_dir / "runs" / name / "work" / "ray-token").read_text()
    status, job = ask(f"{url}/api/jobs/{name}", token)
    assert (status, name in job, canary in job) == (200, True, False)
    assert canary not in ask(f"{url}/api/v0/runtime_envs", token)[1]
    for process in psutil.process_iter(["cmdline"]):
        assert canary not in " ".join(process.info["cmdline"] or [])
    folders = [state_dir, temp_dir]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 20
    assert [path for path in files if canary.encode() in content_of(path)] == []


def content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # Ray keeps some files for a moment only


async def test_failing_command_names_the_submitter_with_exit_code_and_last_lines(backend: LocalBackend) -> None:
    ref = await submit(backend, ray_task("echo before; exit 7"))
    status = await wait_for(backend, ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert (status.failure.replica, status.failure.exit_code) == ("submitter-0", 7)
    assert status.failure.summary == "submitter-0 ended with exit code 7"
    assert "before" in status.failure.last_lines
    assert {replica.name: replica.phase for replica in status.replicas} == {
        "submitter-0": Phase.FAILED,
        "head-0": Phase.STOPPED,
    }


async def test_two_clusters_stand_side_by_side_and_a_stop_ends_just_one(
    backend: LocalBackend, state_dir: Path, tmp_path: Path
) -> None:
    go, trapped = tmp_path / "go", tmp_path / "trapped"
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    stopped = await submit(backend, ray_task(f"trap 'touch {trapped}; exit 0' TERM; {wait}", cpu="100m"))
    kept = await submit(backend, ray_task(f"{wait}; echo went on", cpu="100m"))
    await asyncio.gather(*(wait_for(backend, ref, Phase.RUNNING) for ref in (stopped, kept)))
    processes = family(state_dir, stopped)
    temp_dir = temp_dir_of(state_dir, stopped)

    await backend.stop(stopped, by="ada")
    status = await backend.status(stopped)
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "ada")
    assert living(processes) == []
    assert not temp_dir.exists()
    assert trapped.exists()

    go.touch()
    assert (await wait_for(backend, kept)).phase is Phase.SUCCEEDED
    assert "went on" in await lines_of(backend, kept)


async def test_killed_supervisor_leaves_no_ray_process_and_the_run_is_lost(
    backend: LocalBackend, state_dir: Path
) -> None:
    ref = await submit(backend, ray_task("sleep 600", workers=1, cpu="100m"))
    await wait_for(backend, ref, Phase.RUNNING)
    processes, temp_dir = family(state_dir, ref), temp_dir_of(state_dir, ref)
    assert len(processes) > 10
    processes[0].kill()
    assert (await wait_for(backend, ref, Phase.LOST)).phase is Phase.LOST
    await wait_until(lambda: not living(processes))
    await wait_until(lambda: not temp_dir.exists())


async def test_cluster_whose_run_folder_is_removed_ends_itself(backend: LocalBackend, state_dir: Path) -> None:
    ref = await submit(backend, ray_task("echo up; sleep 600"))
    await wait_for(backend, ref, Phase.RUNNING)
    temp_dir = temp_dir_of(state_dir, ref)
    processes = living(family(state_dir, ref))
    assert len(processes) > 3
    folder = state_dir / "runs" / ref.name
    await asyncio.to_thread(shutil.rmtree, folder)
    assert (await backend.status(ref)).phase is Phase.LOST
    await wait_until(lambda: not living(processes) and not find_processes(temp_dir))
    assert not temp_dir.exists()
    assert not folder.exists()


async def test_delete_sweeps_what_is_left_when_guard_and_supervisor_were_killed(
    backend: LocalBackend, state_dir: Path
) -> None:
    ref = await submit(backend, ray_task("sleep 600", cpu="100m"))
    await wait_for(backend, ref, Phase.RUNNING)
    processes, temp_dir = family(state_dir, ref), temp_dir_of(state_dir, ref)
    guard = processes[0].parent()
    assert guard is not None
    guard.kill()
    processes[0].kill()
    assert (await wait_for(backend, ref, Phase.LOST)).phase is Phase.LOST
    await backend.delete(ref)
    assert find_processes(temp_dir) == []
    assert not temp_dir.exists()
    await wait_until(lambda: not living(processes))


async def test_debug_keeps_the_cluster_after_the_end_until_a_stop(backend: LocalBackend, state_dir: Path) -> None:
    task = ray_task("echo done", ray={"debug": {"keep_seconds": 600}})
    ref = await submit(backend, task)
    status = await wait_for(backend, ref)
    assert status.phase is Phase.SUCCEEDED
    token = (state_dir / "runs" / ref.name / "work" / "ray-token").read_text()
    assert ask(f"{status.links['dashboard']}/api/version", token)[0] == 200
    assert any("kept for 600 s" in event.text for event in status.events)
    processes = family(state_dir, ref)
    await backend.stop(ref, by="ada")
    assert living(processes) == []
    assert (await backend.status(ref)).phase is Phase.SUCCEEDED


async def test_runtime_env_that_can_not_be_made_is_told_in_ray_s_words(backend: LocalBackend, tmp_path: Path) -> None:
    missing = tmp_path / "not-there"
    ref = await submit(backend, ray_task("echo never", ray={"runtime_env": {"working_dir": str(missing)}}))
    status = await wait_for(backend, ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert "Ray refused the job" in status.failure.summary
    assert str(missing) in status.failure.summary
