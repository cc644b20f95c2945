"""Where a run's processes find themselves: directory, environment, mounts, hostfiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.capacity import Amounts, machine
from siflow_provider.backends.local.mounts import mount_view
from siflow_provider.backends.local.processes import MARKER_ENV
from siflow_provider.backends.local.ray_job import make_shared_folder
from siflow_provider.backends.local.record import Submission
from siflow_provider.backends.local.store import RunFolder, StateDir
from siflow_provider.backends.local.supervisor import SUPERVISOR_NAMES
from siflow_provider.core.results import RESULTS_ENV

__all__ = ["Place", "prepare"]


@dataclass(frozen=True, slots=True)
class Place:
    """What `prepare` made: for `Launch`, and `notes` for the run's events."""

    directory: Path
    env: Mapping[str, str]
    prefix: tuple[str, ...]
    document: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def prepare(folder: RunFolder, submission: Submission, hidden: Mapping[str, str]) -> Place:
    """Return the place of a run on this machine, its files made.

    Raises:
        SiflowError: a folder that the task mounts is not there.
    """
    document = _with_amounts(submission.document, machine(StateDir(folder.path.parent.parent)))
    shared = make_shared_folder(document, folder.path)
    directory, notes = Path(submission.directory), []
    if not directory.is_dir():
        notes.append(f"{directory} is gone: the replicas start in {folder.work}")
        directory = folder.work
    view = mount_view(document["mounts"], folder.work, directory, shared)
    env = {**_base(), **document["env"], **hidden, **view.env, MARKER_ENV: submission.ref.uid}
    env[RESULTS_ENV] = str(folder.work / "results.json")
    if document["ssh"]:
        env["SIFLOW_HOSTFILE"] = str(_write_hostfiles(folder, document))
    return Place(directory, env, view.prefix, document, (*view.notes, *notes))


def _base() -> dict[str, str]:
    """Return what the starter handed down, the running interpreter's programs first on the path."""
    env = {name: value for name, value in os.environ.items() if name not in SUPERVISOR_NAMES}
    python_path = env.pop("SIFLOW_STARTER_PYTHONPATH", "")
    env.pop("PYTHONPATH", None)
    if python_path:
        env["PYTHONPATH"] = python_path
    programs = str(Path(sys.executable).parent)
    env["PATH"] = os.pathsep.join([programs, env.get("PATH", os.defpath)])
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _with_amounts(document: Mapping[str, Any], capacity: Amounts) -> dict[str, Any]:
    roles = []
    for role in document["replicas"]:
        amounts = Amounts.of(role["resources"])
        roles.append({**role, "cores": amounts.millicores / 1000, "gpus": amounts.gpus, "memory": amounts.memory})
    return {**document, "replicas": roles, "machine_gpus": capacity.gpus}


def _write_hostfiles(folder: RunFolder, document: Mapping[str, Any]) -> Path:
    """Write the hostfile of MPI's form and the one with names alone, in the order of ranks; return the first."""
    slots = [max(1, role["gpus"]) for role in document["replicas"] for _ in range(role["count"])]
    path = folder.work / "hostfile"
    path.write_text("".join(f"127.0.0.1 slots={count}\n" for count in slots))
    path.with_name("hostfile.hostname").write_text("127.0.0.1\n" * len(slots))
    return path
