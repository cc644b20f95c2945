"""Airflow's own commands show what the provider brings; the package must be installed, as `scripts/test` does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "providers get airflow-provider-siflow": ["airflow-provider-siflow", "0.1.0"],
    "providers hooks": ["siflow_provider.hooks.siflow.SiflowHook"],
    "providers widgets": ["extra__siflow__backend", "extra__siflow__kube_config"],
    "providers behaviours": ["siflow"],
    "providers links": ["siflow_provider.links.JobLink"],
    "providers notifications": ["siflow_provider.notifications.training.TrainingNotifier"],
    "providers triggers": ["siflow_provider.triggers.quota", "siflow_provider.triggers.run"],
    "config get-value siflow local_without_connection": ["True"],
    "plugins": ["siflow_provider.links.LogsLink"],
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_airflow_shows_what_the_provider_brings(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    words = ["json"] if command.startswith(("providers", "plugins")) and "get" not in command.split()[1:2] else []
    argv = [sys.executable, "-m", "airflow", *command.split(), *(["--output", *words] if words else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = "".join(done.stdout.split())
    assert [each for each in COMMANDS[command] if each not in shown] == []
