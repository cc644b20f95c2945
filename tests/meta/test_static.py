"""Style and imports are checked by the tools that know them, with the settings of pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.meta.source import ROOT


def assert_passes(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing() -> None:
    assert_passes(sys.executable, "-m", "ruff", "check", "--no-cache", ".")


def test_code_is_formatted() -> None:
    assert_passes(sys.executable, "-m", "ruff", "format", "--check", "--no-cache", ".")


def test_layers_and_other_import_contracts_are_kept() -> None:
    assert_passes(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
