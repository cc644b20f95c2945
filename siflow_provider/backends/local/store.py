"""Where the embedded backend keeps its state, and how a file there is written whole or not at all.

STATE_DIR/
  capacity.json          optional, the admin's own: {"cpu": 4, "memory": "8Gi", "gpus": 0}
  runs/NAME/             one attempt: manifest.json state.json lock stop.json supervisor.log logs/ work/ ...
  by-run/UUID/ATTEMPT    symlink to the attempt's folder: finds a run by its labels
  queue/NAME.json        one entry for each attempt that waits or holds a share of the machine
  deleted/UID.json       the last state of an attempt that was deleted, for those who still follow it
  clean-up/UUID.json     data of a run on shared storage that goes when the run is over (`shared_data`)
  new/UID/               an attempt that is being made; published by renaming it into runs/
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.lock import is_held

__all__ = ["FOLDERS", "RunFolder", "StateDir", "boot_id", "create_json", "read_json", "write_json"]

FOLDERS = ("runs", "by-run", "queue", "deleted", "clean-up", "new")
_STALE_SECONDS = 60.0
_KEEP_DELETED_SECONDS = 24 * 3600.0


def write_json(path: Path, value: Any, *, mode: int = 0o644) -> None:
    """Write `value` so that a reader sees the old file or the new one, and a crash leaves one of both."""
    _write_aside(path, value, mode).replace(path)


def create_json(path: Path, value: Any) -> None:
    """Write `value` if the file is not there yet; of several writers one wins, and its file is seen whole."""
    aside = _write_aside(path, value, 0o644)
    with contextlib.suppress(FileExistsError):
        os.link(aside, path)
    aside.unlink()


def _write_aside(path: Path, value: Any, mode: int) -> Path:
    aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, sort_keys=True)  # escaped: a folder's name need not be UTF-8
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return aside


def read_json(path: Path) -> Any:
    """Return the file's value; None when it is not there or is no JSON."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def boot_id() -> str:
    """Return the kernel's id of this boot: another one means that no process of then is alive."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one attempt."""

    path: Path

    @property
    def manifest(self) -> Path:
        """What was submitted, hidden values apart."""
        return self.path / "manifest.json"

    @property
    def state(self) -> Path:
        """The last whole state that the supervisor wrote."""
        return self.path / "state.json"

    @property
    def lock(self) -> Path:
        """Held while the supervisor, or anything that it has to clean up, is alive."""
        return self.path / "lock"

    @property
    def hidden(self) -> Path:
        """Hidden values, for the supervisor, which deletes it."""
        return self.path / "hidden.json"

    @property
    def reserve(self) -> Path:
        """Room on the disk for the run's last state, for when there is no other."""
        return self.path / "reserve"

    @property
    def stop(self) -> Path:
        """There once somebody asked for a stop: who, and when."""
        return self.path / "stop.json"

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor itself had to say."""
        return self.path / "supervisor.log"

    @property
    def logs(self) -> Path:
        """One file a replica."""
        return self.path / "logs"

    @property
    def work(self) -> Path:
        """Files that the runner and the replicas share: results, hostfiles, Ray's own."""
        return self.path / "work"

    @property
    def alive(self) -> bool:
        """Whether the supervisor is there."""
        return is_held(self.lock)


@dataclass(frozen=True, slots=True)
class StateDir:
    """The state directory of one or many Airflows and users' processes on this machine."""

    path: Path

    @classmethod
    def open(cls, configured: str | None) -> StateDir:
        """Return the directory that the settings, `SIFLOW_LOCAL_STATE_DIR` or the user's data folder name.

        Raises:
            RuntimeError: it lies in a home folder that nobody knows.
            OSError: it can't be made.
        """
        data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        chosen = configured or os.environ.get("SIFLOW_LOCAL_STATE_DIR") or f"{data_home}/siflow"
        state = cls(Path(chosen).expanduser().absolute())
        for name in FOLDERS:
            (state.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        return state

    @property
    def runs(self) -> Path:
        """All published attempts."""
        return self.path / "runs"

    def run(self, name: str) -> RunFolder:
        """Return the folder of the attempt called `name`, whether it exists or not."""
        return RunFolder(self.runs / name)

    def by_run(self, task_uuid: str) -> Path:
        """Return the folder that lists the attempts of one run."""
        return self.path / "by-run" / task_uuid

    def deleted(self, uid: str) -> Path:
        """Return the file that keeps the last state of a deleted attempt."""
        return self.path / "deleted" / f"{uid}.json"

    def clean_up(self, task_uuid: str) -> Path:
        """Return the file that says which data goes when a run is over."""
        return self.path / "clean-up" / f"{task_uuid}.json"

    def sweep(self) -> None:
        """Remove what a killed starter left in `new/` (hidden values among it), and old entries of `deleted/`."""
        now = time.time()
        for folder in (self.path / "new").iterdir():
            if _age(folder, now) > _STALE_SECONDS and not is_held(folder / "lock"):
                shutil.rmtree(folder, ignore_errors=True)
        for file in (self.path / "deleted").iterdir():
            if _age(file, now) > _KEEP_DELETED_SECONDS:
                file.unlink(missing_ok=True)


def _age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
