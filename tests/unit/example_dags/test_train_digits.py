"""The DDP example trains, resumes from its checkpoints and reports, started rank by rank and by torchrun."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "example_dags" / "jobs" / "train_digits.py"
pytestmark = [pytest.mark.torch, pytest.mark.timeout(240)]
WAIT_SECONDS = 120


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a replica sees beside its rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE", "LOCAL_RANK"}}
    return kept | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "SIFLOW_RESULTS": str(tmp_path / "results.json"),
    }


def run_gang(environment: dict[str, str], *arguments: str, size: int = 2) -> list[str]:
    """Start one process per rank; return the output of each, after all have ended well."""
    command = [sys.executable, str(SCRIPT), *arguments]
    ranks = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "WORLD_SIZE": str(size)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [rank.communicate(timeout=WAIT_SECONDS)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0] * size, outputs
    return outputs


def test_master_and_worker_learn_the_digits_and_rank_0_reports(environment: dict[str, str]) -> None:
    master, worker = run_gang(environment, "--epochs", "8")
    assert "rank 0 of 2" in master
    assert "epoch 8/8 loss=" in master
    assert "rank 1 of 2" in worker
    assert "epoch" not in worker.replace("images per epoch", "")
    results = json.loads(Path(environment["SIFLOW_RESULTS"]).read_text(encoding="utf-8"))
    assert results["accuracy"] > 0.9
    assert results["epochs"] == 8
    assert results["samples"] == 1347


def test_a_new_start_goes_on_behind_the_last_checkpoint(environment: dict[str, str]) -> None:
    run_gang(environment, "--epochs", "2")
    half_written = Path(environment["CHECKPOINT_DIR"]) / ".epoch-0009.tmp"
    half_written.write_bytes(b"cut off")
    master, _ = run_gang(environment, "--epochs", "3")
    assert "resumed behind epoch 2" in master
    assert "epoch 2/3" not in master
    assert "epoch 3/3" in master


def test_torchrun_starts_both_ranks_of_one_machine(environment: dict[str, str]) -> None:
    launch = ["torchrun", "--master_addr", "127.0.0.1", "--master_port", environment["MASTER_PORT"]]
    launcher = str(Path(sys.executable).with_name(launch[0]))
    done = subprocess.run(
        [
            launcher,
            *launch[1:],
            "--nnodes",
            "1",
            "--node_rank",
            "0",
            "--nproc_per_node",
            "2",
            str(SCRIPT),
            "--epochs=2",
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2" in done.stdout
    assert json.loads(Path(environment["SIFLOW_RESULTS"]).read_text(encoding="utf-8"))["epochs"] == 2


def test_learning_rate_of_the_command_line_is_used(environment: dict[str, str]) -> None:
    run_gang(environment, "--epochs", "1", "--learning-rate", "0", size=1)
    results = json.loads(Path(environment["SIFLOW_RESULTS"]).read_text(encoding="utf-8"))
    assert results["accuracy"] < 0.5
