"""Give one process its own view of the file system, then become the command: a script, run before each replica.

    python -I -S namespace.py PLAN COMMAND...

PLAN is a JSON list of `[mount_path, folder, read_only]`. Nothing of the machine itself is changed: the mounts live in a
mount namespace that ends with its processes. Where a mount path does not exist, the nearest folder above it is shadowed
by one in memory that holds the same entries and the missing path. A user namespace gives the right to mount where we
have none.
Uses nothing but the standard library, and no site-packages, so that it starts in a few hundredths of a second.
Needs Linux 5.2. Source: mount(2), open_tree(2), move_mount(2), unshare(2), pivot_root(2), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
from pathlib import Path

__all__ = ["Mounter", "main", "take_tree"]

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_MOVE, _MS_REC, _MS_SLAVE = 32, 4096, 8192, 16384, 1 << 19
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_OPEN_TREE, _MOVE_MOUNT, _AT_FDCWD = 428, 429, -100
_OPEN_TREE_CLONE, _AT_RECURSIVE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 0x8000, 4
_MOST_ENTRIES = 400
_KEPT_FLAGS = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), target)


def _own_namespace() -> None:
    """Leave the machine's mount namespace, by a user namespace where we may not do so plainly."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWNS) != 0:
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)


def take_tree(folder: Path) -> int:
    """Return a descriptor of `folder` as a mount of its own, whatever is laid over its path later."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    tree = _libc.syscall(_OPEN_TREE, _AT_FDCWD, str(folder).encode(), flags)
    _check(min(0, tree), str(folder))
    return int(tree)


class Mounter:
    """Puts folders at paths. `workshop` is an empty folder where shadows are built."""

    def __init__(self, workshop: Path) -> None:
        self._workshop = workshop
        self._devices: set[int] = set()
        self._done: list[Path] = []

    def bind(self, tree: int, path: Path) -> None:
        """Put what `take_tree` took at `path`."""
        if not path.exists():
            self._make(path)
        result = _libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, str(path).encode(), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(result, str(path))
        os.close(tree)
        self._done.append(path)

    def protect(self, path: Path) -> None:
        """Make what was bound at `path` read-only (the folder's own file system, not those mounted below it)."""
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS
        _mount(None, str(path), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)

    def _make(self, path: Path) -> None:
        above = next(parent for parent in path.parents if parent.exists())
        inside_own = above.stat().st_dev in self._devices or any(above.is_relative_to(done) for done in self._done)
        if not inside_own:
            self._shadow(above)
        path.mkdir(parents=True)

    def _shadow(self, folder: Path) -> None:
        """Lay a folder in memory over `folder`, with the same entries."""
        entries = sorted(folder.iterdir())
        if len(entries) > _MOST_ENTRIES:
            raise OSError(0, f"{folder} has more than {_MOST_ENTRIES} entries", str(folder))
        _mount("tmpfs", str(self._workshop), "tmpfs", 0, "mode=0755")
        for entry in entries:
            self._copy(entry, self._workshop / entry.name)
        self._devices.add(self._workshop.stat().st_dev)
        if folder == Path("/"):
            self._pivot()
        else:
            _mount(str(self._workshop), str(folder), None, _MS_MOVE)

    def _copy(self, entry: Path, shadow: Path) -> None:
        if entry.is_symlink():
            shadow.symlink_to(entry.readlink())
            return
        if entry.is_dir():
            shadow.mkdir()
        else:
            shadow.touch()
        _mount(str(entry), str(shadow), None, _MS_BIND | _MS_REC)

    def _pivot(self) -> None:
        """Make the workshop the root; the old root goes."""
        os.chdir(self._workshop)
        _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", _MNT_DETACH), "umount")
        os.chdir("/")


def _environment() -> dict[bytes, bytes]:
    """Return the environment as it was handed to us; Python itself may add to its own."""
    pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(pair.partition(b"=")[::2] for pair in pairs if b"=" in pair)


def main(argv: list[str]) -> None:
    """Make the mounts and become the command."""
    plan = Path(argv[0]).absolute()
    where = Path.cwd()
    wanted = [(Path(path), Path(folder), read_only) for path, folder, read_only in json.loads(plan.read_bytes())]
    env = _environment()
    _own_namespace()
    # a change of user namespace undoes what the supervisor asked for
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    mounter = Mounter(plan.with_name("empty"))
    trees = {path: take_tree(folder) for path, folder, _ in wanted}
    for path in sorted(trees, key=lambda path: len(path.parts)):
        mounter.bind(trees[path], path)
    for path, _, read_only in wanted:
        if read_only:
            mounter.protect(path)
    try:
        os.chdir(where)
    except OSError as error:
        raise OSError(error.errno, "a mount hides the folder where the command starts", str(where)) from error
    os.execvpe(argv[1], argv[1:], env)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"siflow: the task's folders can't be mounted: {error.strerror} ({error.filename})")
