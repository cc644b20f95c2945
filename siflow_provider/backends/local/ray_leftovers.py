"""Ends and removes what a local Ray cluster left behind when its supervisor could not do it.

A cluster's processes carry the path of its temporary folder in their command lines (head, GCS, raylet, dashboard,
agents) or hold files open in it (workers, which Ray renames). Nothing but that one folder's cluster is touched.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import psutil

__all__ = ["find_processes", "remember_temp_dir", "remove_cluster", "remove_leftovers"]

_FILE = "ray-temp-dir.json"
_WAIT_SECONDS = 5.0
_PROGRAM_WORDS = 4
"""Interpreter, its options and the program: where the name of Ray stands in a command line."""


def remember_temp_dir(work: Path, temp_dir: Path) -> None:
    """Note in the run's `work` folder where its cluster lives, before anything is started there."""
    (work / _FILE).write_text(json.dumps({"temp_dir": str(temp_dir)}), encoding="utf-8")


def remove_leftovers(work: Path) -> None:
    """End what still runs of the cluster that `work` remembers, and remove its temporary folder. Idempotent.

    Only for a run whose supervisor is gone.
    """
    try:
        temp_dir = Path(json.loads((work / _FILE).read_text(encoding="utf-8"))["temp_dir"])
    except FileNotFoundError:
        return
    remove_cluster(temp_dir)
    if not temp_dir.exists():
        (work / _FILE).unlink(missing_ok=True)


def remove_cluster(temp_dir: Path) -> None:
    """End what still runs of the cluster in `temp_dir`, and remove this folder. Idempotent."""
    doomed = find_processes(temp_dir)
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(doomed, timeout=_WAIT_SECONDS)
    shutil.rmtree(temp_dir, ignore_errors=True)


def find_processes(temp_dir: Path) -> list[psutil.Process]:
    """Return every process of this user that belongs to the cluster in `temp_dir`."""
    return [process for process in psutil.process_iter() if _belongs(process, f"{temp_dir}/")]


def _belongs(process: psutil.Process, marker: str) -> bool:
    try:
        words = process.cmdline()
        if any(marker in f"{word}/" for word in words):
            # a person who reads one of its logs is not part of the cluster
            return any("ray" in word for word in words[:_PROGRAM_WORDS] if marker not in f"{word}/")
        renamed = bool(words) and words[0].startswith("ray::")
        return renamed and any(file.path.startswith(marker) for file in process.open_files())
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False
