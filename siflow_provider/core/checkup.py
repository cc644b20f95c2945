"""What `doctor` says of one thing that it looked at."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        ok: whether it is as it should be.
        found: what was found.
        mend: what to do when it is not ok.
        needed: False for what only some tasks use: it never makes the command fail.
    """

    name: str
    ok: bool
    found: str
    mend: str = ""
    needed: bool = True
