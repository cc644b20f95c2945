"""Type checkers know every keyword: right uses pass, wrong ones are told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="the oldest supported versions are tested without a type checker")

ROOT = Path(__file__).parents[3]
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
        volumes=[{"name": "data", "mount_path": "/volume/data", "read_only": True}],
        fault_tolerance={"max_retries": 2, "hang_timeout": "15m"},
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
"""


def test_right_uses_pass_and_each_wrong_one_is_told(tmp_path: Path) -> None:
    for name, source in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path)]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False).stdout
    wrong = [number for number, line in enumerate(WRONG.splitlines(), 1) if "  # " in line]
    told = re.findall(r"(\w+\.py):(\d+): error:", out)
    assert {(name, int(number)) for name, number in told} == {("wrong.py", number) for number in wrong}, out
    assert "checked 2 source files" in out
