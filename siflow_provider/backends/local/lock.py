"""`flock` on small files: what says that a supervisor is alive, and what keeps two processes off one ledger.

A lock is held by an open file, not by a process id, so it can't be mistaken: the kernel lets it go when the last
process that has the file open is gone, killed or not. Works on local file systems. Source: flock(2).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_held", "is_still", "locked", "take"]


def take(path: Path) -> int:
    """Create `path` and return an open descriptor that holds its lock.

    Raises:
        BlockingIOError: somebody holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_held(path: Path) -> bool:
    """Say whether somebody holds the lock; False when the file is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        # shared, so that two who ask at once don't take each other for the holder
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_still(path: Path, descriptor: int) -> bool:
    """Say whether `path` names the very file that `descriptor` has open: False when it was removed or replaced.

    The open file keeps its inode, so another file can't be mistaken for it. What can't be looked at now counts as
    still there.
    """
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    held = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it for the length of the block."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
