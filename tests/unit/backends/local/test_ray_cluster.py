"""The runner of a RayJob with a Ray that does not work: what its user is told, and that nothing stays behind."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.local.processes import Processes
from siflow_provider.backends.local.ray_cluster import RayCluster
from siflow_provider.backends.local.ray_job import make_shared_folder, shared_env
from siflow_provider.backends.local.runner import Launch, RunnerState
from siflow_provider.core.diagnosis import Evidence, diagnose
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.core.status import FailureClass, Phase

WAIT_SECONDS = 30.0


@pytest.fixture
def events() -> list[str]:
    return []


@pytest.fixture
def launch(tmp_path: Path, events: list[str]) -> Launch:
    folder = tmp_path / "state" / "runs" / "tune-abc"
    (folder / "work").mkdir(parents=True)
    document: dict[str, Any] = {
        "command": "true",
        "labels": {f"{LABEL_PREFIX}run": "the-run"},
        "mounts": [],
        "ray": {"shared_storage": {"volume": "team", "clean_up": True}},
        "replicas": [{"role": "head", "count": 1, "cores": 1, "gpus": 0, "memory": 2**30}],
    }
    return Launch(
        name="tune-abc",
        uid="uid",
        document=document,
        folder=folder,
        directory=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "fake")},
        prefix=(),
        gpus=(),
        processes=Processes(),
        event=lambda text, warning=False: events.append(text),
    )


def fake_ray(tmp_path: Path, program: str) -> None:
    """Put a Ray on the path of the cluster's processes whose node is `program`."""
    package = tmp_path / "fake" / "ray" / "_private"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "parameter.py").write_text(program)


def poll_until_ended(cluster: RayCluster) -> RunnerState:
    deadline = time.monotonic() + WAIT_SECONDS
    while (state := cluster.poll()).ending is None:
        assert time.monotonic() < deadline
    return state


def test_head_that_ends_at_its_start_is_started_anew_twice_and_then_named_as_no_fault_of_the_users_code(
    launch: Launch, tmp_path: Path, events: list[str]
) -> None:
    fake_ray(tmp_path, "print('no luck'); raise SystemExit(9)")
    cluster = RayCluster(launch)
    cluster.start()
    state = poll_until_ended(cluster)
    cluster.stop(1.0)
    assert state.ending is not None
    assert state.finished
    assert state.ending.summary == "the Ray node head-0 ended before the job was submitted (exit code 9)"
    assert state.ending.replica == "head-0"
    said = Evidence(replica=state.ending.replica, exit_code=state.ending.exit_code, reason=state.ending.summary)
    assert diagnose(said).category is FailureClass.PLATFORM
    assert launch.log("head-0").read_text() == "no luck\n" * 3
    assert len([text for text in events if "all nodes are started anew" in text]) == 2
    phases = {replica.name: replica.phase for replica in cluster.poll().replicas}
    assert phases == {"submitter-0": Phase.STOPPED, "head-0": Phase.FAILED}


def test_cluster_that_never_comes_up_is_given_up(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ray(tmp_path, "import time; time.sleep(600)")
    monkeypatch.setattr("siflow_provider.backends.local.ray_cluster._START_SECONDS", 0.2)
    cluster = RayCluster(launch)
    cluster.start()
    state = poll_until_ended(cluster)
    assert state.ending is not None
    assert "head-0 did not come up" in state.ending.summary
    (pid,) = state.pids.values()
    cluster.stop(1.0)
    assert not Path(f"/proc/{pid}").exists()


def test_stop_at_the_start_removes_the_cluster_s_folder(launch: Launch, tmp_path: Path) -> None:
    fake_ray(tmp_path, "import time; time.sleep(600)")
    cluster = RayCluster(launch)
    cluster.start()
    temp_dir = Path(argv_of(cluster)[-1]).parent
    assert temp_dir.is_dir()
    cluster.stop(1.0)
    cluster.stop(1.0)
    assert not temp_dir.exists()
    assert {replica.phase for replica in cluster.poll().replicas} == {Phase.STOPPED}


def argv_of(cluster: RayCluster) -> list[str]:
    (pid,) = cluster.poll().pids.values()
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


@pytest.mark.parametrize("stopped", [False, True], ids=["failed", "stopped"])
def test_shared_folder_outlives_the_attempt_for_a_further_one_that_a_clock_may_start(
    launch: Launch, tmp_path: Path, *, stopped: bool
) -> None:
    fake_ray(tmp_path, "import time; time.sleep(600)" if stopped else "raise SystemExit(9)")
    folder = make_shared_folder(launch.document, launch.folder)
    assert folder is not None
    assert shared_env(launch) == {"SIFLOW_SHARED_STORAGE": str(folder)}
    assert folder == tmp_path / "state" / "shared" / "siflow-ray" / "the-run"
    cluster = RayCluster(launch)
    cluster.start()
    if not stopped:
        poll_until_ended(cluster)
    cluster.stop(1.0)
    assert folder.is_dir()


def test_shared_folder_lies_on_the_volume_s_own_folder(launch: Launch, tmp_path: Path) -> None:
    mount = {"source": "shared_storage", "name": "team", "mount_path": "/tmp/ray", "read_only": False}
    launch.document["mounts"].append({**mount, "local": str(tmp_path / "team"), "sub_path": "ray"})
    folder = make_shared_folder(launch.document, launch.folder)
    assert folder is not None
    assert shared_env(launch) == {"SIFLOW_SHARED_STORAGE": str(folder)}
    assert folder == tmp_path / "team" / "ray" / "siflow-ray" / "the-run"
    assert folder.is_dir()
