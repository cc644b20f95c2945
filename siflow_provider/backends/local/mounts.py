"""Volumes, datasets and models on this machine: local folders, at their mount path where the system allows that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siflow_provider.errors import UsageError

__all__ = ["View", "local_folder", "mount_env"]


@dataclass(frozen=True, slots=True)
class View:
    """How the replicas see the mounts: words before each argv, variables, and what to tell the user."""

    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def local_folder(mount: Mapping[str, Any]) -> Path | None:
    """Return the folder behind a mount; None when the catalog gives none."""
    if mount["local"] is None:
        return None
    folder = Path(mount["local"]).expanduser()
    return folder / mount["sub_path"] if mount["source"] in ("volume", "shared_storage") else folder


def mount_env(mounts: Sequence[Mapping[str, Any]]) -> View:
    """Return the variables that tell a job where its folders are, the missing ones of volumes made."""
    table: dict[str, str] = {}
    env: dict[str, str] = {}
    for mount in mounts:
        folder = local_folder(mount)
        if folder is None:
            continue
        if mount["source"] in ("volume", "shared_storage") and not mount["read_only"]:
            folder.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            raise UsageError(
                f"{mount['source']} {mount['name']!r}: its local folder {folder} is not there.",
                hint="Make the folder, or mend `local` in the catalog.",
            )
        table[mount["mount_path"]] = str(folder)
        env["SIFLOW_MOUNT_" + re.sub(r"[^A-Z0-9]+", "_", str(mount["name"]).upper())] = str(folder)
    if table:
        env["SIFLOW_MOUNTS"] = json.dumps(table, sort_keys=True)
    return View((), env, ())
