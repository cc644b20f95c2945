"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["expanded"]


def expanded(path: str | Path) -> Path:
    """Return the path with the home folder for `~`; where nobody knows that folder, the path as it is written.

    A container's user often has neither HOME nor an entry in passwd, and `~name` may be a slip. What is then looked for
    is not there, which is told as of any other path.

    Example:
        >>> expanded("~nobody-of-this-name/task.yaml")
        PosixPath('~nobody-of-this-name/task.yaml')
    """
    path = Path(path)
    try:
        return path.expanduser()
    except RuntimeError:
        return path
