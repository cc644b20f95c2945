"""The command as a user runs it: a process of its own, with a state folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.unit.cli.warm import run_forked

FORM = """
kind: PyTorchJob
image: registry.example/ai/pytorch:2.9
command: |
  {command}
compute: {{type: on_demand, instances: [{{cpu: 1, memory: 256Mi}}]}}
workers: {workers}
"""


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Command:
    """Runs `siflow-provider` in a folder, with an environment in which nothing of the caller's is left."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
        root = str(Path(__file__).parents[3])
        own = {"SIFLOW_LOCAL_STATE_DIR": str(self.folder / "state"), "AIRFLOW_HOME": str(self.folder / "airflow")}
        return {**kept, **own, "PYTHONPATH": root, "COLUMNS": "200"}

    def start(self, *arguments: str, variables: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[str]:
        """Start the command and return at once; what `nohup` or a background shell ignores, it does not."""
        return subprocess.Popen(
            ["env", "--default-signal=HUP,INT", sys.executable, "-m", "siflow_provider.cli.main", *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_ready(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `run` of a form whose command prints `ready`, and return when it has."""
        process = self.start("run", *arguments)
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        return process

    def __call__(
        self, *arguments: str, timeout: float = 60, variables: Mapping[str, str] = MappingProxyType({})
    ) -> Done:
        """Run the command to its end, forked from a process that has imported it."""
        return Done(*run_forked(arguments, self.folder, {**self.environment, **variables}, timeout))

    def anew(self, *arguments: str) -> Done:
        """Run the command to its end in an interpreter of its own: each command has a test that does."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return Done(process.returncode, out, err)

    def form(self, command: str = "echo hello", workers: int = 0, extra: str = "", name: str = "task.yaml") -> str:
        """Write a form and return its file's name."""
        text = FORM.format(command=command, workers=workers) + extra
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)
