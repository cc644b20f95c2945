"""The parts of starting a cluster that can be seen without one: ports, folders, environment, argv, entrypoint."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from siflow_provider.backends.local.processes import Processes
from siflow_provider.backends.local.ray_leftovers import find_processes, remember_temp_dir, remove_leftovers
from siflow_provider.backends.local.ray_nodes import (
    cluster_env,
    free_ports,
    head_ports,
    head_request,
    make_temp_dir,
    node_command,
    node_env,
    worker_request,
    write_token,
)
from siflow_provider.backends.local.ray_plan import NodePlan

NODE = NodePlan("worker-0", ("worker-0",), 2, (4, 5), 10**9, 10**8)


def test_ports_are_free_and_all_different() -> None:
    taken: set[int] = set()
    first, second = head_ports(taken), free_ports(("a", "b", "c"), taken)
    ports = [*first.values(), *second.values()]
    assert len(set(ports)) == len(ports) == len(taken)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", second["a"]))


def test_temporary_folder_is_private_and_short_enough_for_sockets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    folder = make_temp_dir()
    try:
        assert folder.parent == Path("/tmp")
        assert folder.stat().st_mode & 0o077 == 0
        socket_path = folder / "session_2026-12-31_23-59-59_123456_4194304" / "sockets" / "plasma_store.10"
        assert len(os.fsencode(socket_path)) <= 107
    finally:
        folder.rmdir()


def test_environment_joins_no_other_cluster_and_keeps_the_author_s_values(tmp_path: Path) -> None:
    given = {"RAY_ADDRESS": "10.0.0.1:6379", "RAY_AUTH_TOKEN": "x", "RAY_DEDUP_LOGS": "0", "SECRET": "s"}
    env = cluster_env(given, head_ports(set()), tmp_path, tmp_path / "token")
    assert env.keys().isdisjoint({"RAY_ADDRESS", "RAY_AUTH_TOKEN"})
    assert (env["RAY_DEDUP_LOGS"], env["SECRET"], env["RAY_TMPDIR"]) == ("0", "s", str(tmp_path))


def test_each_node_sees_its_own_gpus_only() -> None:
    assert node_env({"A": "1"}, NODE, machine_gpus=True)["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert "CUDA_VISIBLE_DEVICES" not in node_env({"A": "1"}, NODE, machine_gpus=False)


def test_no_value_of_the_environment_stands_in_a_command_line(tmp_path: Path) -> None:
    token = write_token(tmp_path / "token")
    words = node_command(tmp_path / "worker-0.json")
    assert token not in " ".join(words)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


def test_every_node_is_asked_for_on_the_loopback_address_alone(tmp_path: Path) -> None:
    taken: set[int] = set()
    ports = head_ports(taken)
    head = head_request(NODE, ports, tmp_path, patient=False)["parameters"]
    worker = worker_request(NODE, ports["port"], taken, tmp_path)["parameters"]
    assert (head["node_ip_address"], head["dashboard_host"], worker["node_ip_address"]) == ("127.0.0.1",) * 3
    assert worker["gcs_address"] == f"127.0.0.1:{head['gcs_server_port']}"
    assert len({value for name, value in [*head.items(), *worker.items()] if name.endswith("_port") and value}) == 14


def test_leftovers_are_found_by_their_folder_and_a_reader_of_its_logs_is_spared(tmp_path: Path) -> None:
    work, temp_dir = tmp_path / "work", tmp_path / "sr-1"
    work.mkdir()
    temp_dir.mkdir()
    (temp_dir / "raylet.out").write_text("line\n")
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    processes = Processes()
    program = tmp_path / "ray_node.py"
    program.write_text("import time; time.sleep(600)")
    node = processes.spawn(
        [sys.executable, "-P", str(program), str(temp_dir / "worker-0.json")],
        env=dict(os.environ), directory=tmp_path, log=tmp_path / "log",
    )  # fmt: skip
    reader = processes.spawn(
        ["tail", "-f", str(temp_dir / "raylet.out")], env=dict(os.environ), directory=tmp_path, log=tmp_path / "log"
    )
    stranger = processes.spawn(sleeper, env=dict(os.environ), directory=tmp_path, log=tmp_path / "log")
    try:
        remember_temp_dir(work, temp_dir)
        assert [process.pid for process in find_processes(temp_dir)] == [node.pid]
        remove_leftovers(work)
        remove_leftovers(work)
        assert not psutil.pid_exists(node.pid)
        assert not temp_dir.exists()
        assert reader.poll() is None
        assert stranger.poll() is None
        assert psutil.pid_exists(stranger.pid)
    finally:
        processes.end([node, reader, stranger], 1.0)
