"""Type checkers know every keyword: the whole project and right uses pass, each wrong one is told."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta.source import ROOT

RIGHT = """
from datetime import timedelta
from airflow.sdk import DAG, task
from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
from siflow_provider.spec import PyTorchJob
from siflow_provider.spec.hidden import Hidden

with DAG("d", schedule=None):
    @task
    def inputs() -> int:
        return 1

    value = inputs()
    PyTorchJobOperator(
        task_id="a",
        image={"preset": "pytorch", "version": "2.9"},
        command="python train.py",
        compute={"type": "on_demand", "instances": ["gpu.h100-8", {"cpu": 4, "memory": "16Gi", "gpu": 1}]},
        workers="{{ params.workers }}",
        env={"LR": 0.1, "DEBUG": True, "TOKEN": {"value": "{{ conn.hf.password }}", "hidden": True}, "H": Hidden("x")},
        volumes=[{"name": "data", "mount_path": "/volume/data", "read_only": True}, "{{ params.volume }}"],
        datasets=[{"name": "imagenet", "version": 3, "mount_path": "/dataset"}],
        models=[{"name": "bert", "mount_path": "/model", "read_only": False}],
        shm_size=1073741824,
        fault_tolerance={"max_retries": 2, "hang_timeout": timedelta(minutes=15)},
        kubernetes={"node_selector": "{{ params.selector }}", "annotations": {"example.com/run": 1}},
        alerts=[{"events": ["failed", {"queued_too_long": "30m"}], "to": ["oncall"]}],
        logs=["worker-1"],
        retries=2,
        execution_timeout=timedelta(hours=1),
    )
    PyTorchJobOperator(task_id="b", spec="train.yaml", workers=1, volumes=value, env={"N": value}, quota="warn")
    RayJobOperator(
        task_id="c", spec={"image": "x"}, ray={"autoscaling": {"min_workers": 1, "max_workers": 2}}, logs="all"
    )
"""
WRONG = """
from siflow_provider.operators import PyTorchJobOperator, RayJobOperator

PyTorchJobOperator(task_id="a", wrokers=1)  # 1
PyTorchJobOperator(task_id="a", workers=[1])  # 2
PyTorchJobOperator(task_id="a", compute={"typ": "spot"})  # 3
PyTorchJobOperator(task_id="a", volumes=[{"name": "data", "path": "/x"}])  # 4
PyTorchJobOperator(task_id="a", quota="never")  # 5
PyTorchJobOperator(task_id="a", ray={})  # 6
PyTorchJobOperator("a")  # 7
PyTorchJobOperator(image="x")  # 8
RayJobOperator(task_id="a", ray={"autoscaling": {"min": 1}})  # 9
PyTorchJobOperator(task_id="a", on_kill_action="kill")  # 10
PyTorchJobOperator(task_id="a", retries="two")  # 11
PyTorchJobOperator(task_id="a", datasets=[{"name": "d", "mount_path": "/d", "read_only": False}])  # 12
"""


@pytest.mark.timeout(600)
def test_mypy_strict_finds_each_wrong_use_and_nothing_else_in_the_whole_project(tmp_path: Path) -> None:
    for name, source in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(source)
    # one run for both: what takes long is to read the libraries
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["files"]
    command = [sys.executable, "-m", "mypy", *project, *map(str, sorted(tmp_path.iterdir()))]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540, check=False).stdout
    wrong = [number for number, line in enumerate(WRONG.splitlines(), 1) if "  # " in line]
    told = re.findall(r"([^/\n]+\.py):(\d+): error:", out)
    assert {(name, int(number)) for name, number in told} == {("wrong.py", number) for number in wrong}, out
