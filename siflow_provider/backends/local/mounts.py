"""Volumes, datasets and models on this machine: local folders, at their mount paths where the system allows that.

With mount namespaces (root, or user namespaces) each replica sees the folders at their mount paths, read-only ones
read-only, and the machine itself is not touched. Without, the job is told where they are: `SIFLOW_MOUNTS` is a JSON
object mount path -> folder, and `SIFLOW_MOUNT_<NAME>` one variable a mount. Both are set in either case; they name the
place that the job can use. The run's events say which way was taken.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siflow_provider.backends.local import namespace
from siflow_provider.backends.local.store import write_json
from siflow_provider.errors import UsageError
from siflow_provider.spec.mount_paths import RAY_FOLDER
from siflow_provider.spec.paths import expanded

__all__ = ["View", "local_folder", "mount_view"]

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class View:
    """How the replicas see the mounts: words before each argv, variables, and what to tell the user."""

    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Bound:
    name: str
    path: str
    folder: Path
    read_only: bool

    def __str__(self) -> str:
        return f"{self.path} is {self.folder}" + (" (read-only)" if self.read_only else "")


def local_folder(mount: Mapping[str, Any]) -> Path | None:
    """Return the folder behind a mount; None when the catalog gives none. A volume's sub path lies below it."""
    if mount["local"] is None:
        return None
    folder = expanded(mount["local"])
    return folder / mount["sub_path"] if mount["source"] in ("volume", "shared_storage") else folder


def mount_view(mounts: Sequence[Mapping[str, Any]], work: Path, directory: Path, shared: Path | None = None) -> View:
    """Return how this machine shows the mounts to a run. Missing volumes are made.

    Args:
        mounts: as the document has them.
        work: the run's own folder.
        directory: where the replicas start.
        shared: the run's own folder on a RayJob's shared storage, which stands at `RAY_FOLDER`.

    Raises:
        UsageError: the folder of a dataset, a model or a read-only volume is not there.
    """
    bound = [_bind(mount) for mount in mounts if mount["local"] is not None and mount["source"] != "shared_storage"]
    if shared is not None:
        # made, so that nothing has to be laid over /tmp; Ray's own session lies elsewhere
        Path(RAY_FOLDER).mkdir(exist_ok=True)
        bound.append(_Bound("shared_storage", RAY_FOLDER, shared, read_only=False))
    if not bound:
        return View()
    prefix = _namespace_prefix(bound, work)
    trouble = _in_the_way(bound, work) or _probe(prefix, directory)
    if not trouble:
        notes = tuple(f"mounted for this run alone: {each}" for each in bound)
        return View(prefix, _variables(bound, inside=True), notes)
    note = (
        f"the folders can't be mounted here ({trouble}): the job finds its folders by SIFLOW_MOUNTS and "
        f"SIFLOW_MOUNT_<NAME>, not at their mount paths, and read-only is not enforced. "
    )
    return View((), _variables(bound, inside=False), (note + "; ".join(map(str, bound)),))


def _in_the_way(bound: Sequence[_Bound], work: Path) -> str:
    hiding = [each.path for each in bound if work.resolve().is_relative_to(each.path)]
    return f"a mount at {hiding[0]} would hide the run's own files" if hiding else ""


def _bind(mount: Mapping[str, Any]) -> _Bound:
    folder = local_folder(mount)
    assert folder is not None
    if mount["source"] == "volume" and not mount["read_only"]:
        folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        raise UsageError(
            f"{mount['source']} {mount['name']!r}: its local folder {folder} is not there.",
            hint="Make the folder, or mend `local` in the catalog.",
        )
    return _Bound(str(mount["name"]), str(mount["mount_path"]), folder.resolve(), bool(mount["read_only"]))


def _variables(bound: Sequence[_Bound], *, inside: bool) -> dict[str, str]:
    places = {each.path: each.path if inside else str(each.folder) for each in bound}
    env = {"SIFLOW_MOUNT_" + re.sub(r"[^A-Z0-9]+", "_", each.name.upper()): places[each.path] for each in bound}
    return {**env, "SIFLOW_MOUNTS": json.dumps(places, sort_keys=True)}


def _namespace_prefix(bound: Sequence[_Bound], work: Path) -> tuple[str, ...]:
    folder = work / "mounts"
    (folder / "empty").mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.json"
    write_json(plan, [[each.path, str(each.folder), each.read_only] for each in bound])
    return (sys.executable, "-I", "-S", str(namespace.__file__), str(plan))


def _probe(prefix: Sequence[str], directory: Path) -> str:
    """Try the mounts with a command that does nothing, started there; return "" or why they can't be had."""
    try:
        done = subprocess.run(
            [*prefix, sys.executable, "-I", "-S", "-c", ""],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
            cwd=directory,
        )
    except subprocess.TimeoutExpired:
        return "the attempt took too long"
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")
