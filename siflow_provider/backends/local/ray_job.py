"""The job that is submitted to a local Ray cluster: its entrypoint, its output, its shared folder, its end."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.mounts import local_folder
from siflow_provider.backends.local.processes import exit_code
from siflow_provider.backends.local.ray_api import RayJobInfo
from siflow_provider.backends.local.ray_plan import SHARED_ENV
from siflow_provider.backends.local.ray_replicas import SUBMITTER
from siflow_provider.backends.local.runner import Ending, Launch
from siflow_provider.backends.local.shared_data import shared_folder
from siflow_provider.backends.local.store import StateDir
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.spec.mount_paths import RAY_FOLDER

__all__ = [
    "ending_of",
    "entrypoint",
    "find_shared_base",
    "find_shared_folder",
    "make_shared_folder",
    "redirect_output",
    "shared_env",
]

_MESSAGE_CHARACTERS = 600


def entrypoint(launch: Launch) -> str:
    """Write the command to a file and return the entrypoint that runs it as `bash -c COMMAND`, byte for byte.

    Ray hands an entrypoint to `sh`, which would read the command once more; so `sh` only reads the file. The `x` keeps
    line ends at the command's end, which `$(...)` drops.
    """
    path = launch.folder / "work" / "command"
    path.write_bytes(str(launch.document["command"]).encode())
    return f'command=$(cat {shlex.quote(str(path))} && printf x) && exec bash -c "${{command%x}}"'


def redirect_output(temp_dir: Path, launch: Launch) -> None:
    """Make the driver's output go straight to the run's own log file; Ray's dashboard and API read it there too."""
    log = launch.log(SUBMITTER)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    link = temp_dir / "session_latest" / "logs" / f"job-driver-{launch.name}.log"
    if not link.exists():
        link.symlink_to(log)


def find_shared_base(document: Mapping[str, Any], state: StateDir) -> Path | None:
    """Return the folder below which runs have their data on shared storage; None when the form asks for none.

    It is the volume's local folder, else one in the state directory.
    """
    if not (document.get("ray") or {}).get("shared_storage"):
        return None
    mounts = [mount for mount in document["mounts"] if mount["source"] == "shared_storage"]
    base = local_folder(mounts[0]) if mounts else None
    return base or state.path / "shared"


def find_shared_folder(document: Mapping[str, Any], run_folder: Path) -> Path | None:
    """Return the folder of the form's `shared_storage`, the same for each attempt; None when none is asked for."""
    base = find_shared_base(document, StateDir(run_folder.parent.parent))
    return None if base is None else shared_folder(base, str(document["labels"][f"{LABEL_PREFIX}run"]))


def make_shared_folder(document: Mapping[str, Any], run_folder: Path) -> Path | None:
    """Make that folder and return it."""
    folder = find_shared_folder(document, run_folder)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def shared_env(launch: Launch) -> dict[str, str]:
    """Return the variable that names the shared folder as the job sees it; {} when none is asked for."""
    folder = find_shared_folder(launch.document, launch.folder)
    if folder is None:
        return {}
    return {SHARED_ENV: json.loads(launch.env.get("SIFLOW_MOUNTS", "{}")).get(RAY_FOLDER, str(folder))}


def ending_of(job: RayJobInfo) -> Ending:
    """Return how an ended job ended, in the user's words."""
    if job.status == "SUCCEEDED":
        return Ending(succeeded=True)
    if job.status == "STOPPED":
        return Ending(False, replica=SUBMITTER, summary="the Ray job was stopped through Ray's own API")
    if job.exit_code is not None:
        return Ending(False, replica=SUBMITTER, exit_code=exit_code(job.exit_code))
    return Ending(False, replica=SUBMITTER, summary=f"Ray could not run the job: {_shorten(job.message)}")


def _shorten(message: str) -> str:
    """Return Ray's words in one line; of a long text the end, where the reason stands."""
    text = " ".join(message.split())
    return text if len(text) <= _MESSAGE_CHARACTERS else f"... {text[-_MESSAGE_CHARACTERS:]}"
