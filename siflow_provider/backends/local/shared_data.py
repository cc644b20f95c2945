"""A run's own data on shared storage, and its removal once the run is over (`ray.shared_storage.clean_up`).

All attempts of a run use the same folder, so an attempt's end is no reason to remove it: whoever knows that no further
one follows says so (`LocalBackend.finish`). It goes once no attempt is alive either: one that still ends, or whose Ray
cluster is kept, may use it. Whichever of the two comes last removes it. The one writes that it is due and then looks at
the attempts' locks, the other lets go of its lock and then looks at what is due.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path

from siflow_provider.backends.local.lock import is_held
from siflow_provider.backends.local.store import StateDir, read_json, write_json

__all__ = ["finish", "remember", "remove_due", "shared_folder"]


def shared_folder(base: Path, task_uuid: str) -> Path:
    """Return the run's own folder below a folder that runs share. Nothing else there is ever removed."""
    return base / "siflow-ray" / task_uuid


def remember(state: StateDir, task_uuid: str, base: Path) -> None:
    """Note where the data is that shall go when the run is over; a further attempt notes it anew, as not yet due."""
    write_json(state.clean_up(task_uuid), {"base": str(base), "due": False})


def finish(state: StateDir, task_uuid: str) -> None:
    """Remove the data that the run asked to have removed, or leave that to the attempt that is still alive. Idempotent.

    Raises:
        OSError: it can't be removed; the next run that ends here tries again.
    """
    noted = read_json(state.clean_up(task_uuid))
    if noted is None:
        return
    write_json(state.clean_up(task_uuid), {**noted, "due": True})
    _remove(state, task_uuid)


def remove_due(state: StateDir) -> None:
    """Remove what is due of every run here, for whoever has just let go of its lock.

    Also what a run left to its supervisor when the machine was started anew. Never raises for a folder that can't be
    removed: the supervisor's log tells.
    """
    for note in state.clean_up("").parent.glob("*.json"):
        try:
            _remove(state, note.stem)
        except OSError as error:
            sys.stderr.write(f"data of run {note.stem} on shared storage could not be removed: {error}\n")


def _remove(state: StateDir, task_uuid: str) -> None:
    note = state.clean_up(task_uuid)
    noted = read_json(note)
    if noted is None or not noted["due"] or _is_in_use(state, task_uuid):
        return
    folder = shared_folder(Path(noted["base"]), task_uuid)
    if folder.is_symlink():  # somebody put it there: what it leads to is not the run's
        folder.unlink(missing_ok=True)
    while folder.exists():
        with suppress(FileNotFoundError):  # two who come last at once remove it together
            shutil.rmtree(folder)
    note.unlink(missing_ok=True)


def _is_in_use(state: StateDir, task_uuid: str) -> bool:
    attempts = state.by_run(task_uuid)
    return attempts.is_dir() and any(is_held(attempt / "lock") for attempt in attempts.iterdir())
