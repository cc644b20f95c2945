"""The Ray example searches, prints each trial and leaves the best one as its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "example_dags" / "jobs" / "tune_digits.py"
pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]
WAIT_SECONDS = 120


def run_search(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script by hand, so that it starts a cluster of its own."""
    environment = os.environ | {
        "SIFLOW_RESULTS": str(tmp_path / "results.json"),
        "HOME": str(tmp_path),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment.pop("RAY_ADDRESS", None)
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_every_trial_is_printed_and_the_best_one_is_the_result(tmp_path: Path) -> None:
    done = run_search(tmp_path, "--trials", "4")
    assert done.returncode == 0, done.stderr
    for number in range(1, 5):
        assert f"trial {number}: C=" in done.stdout
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["trials"] == 4
    assert results["accuracy"] > 0.95
    assert set(results["parameters"]) == {"C", "gamma"}
