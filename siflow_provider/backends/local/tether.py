"""The two ties between a process and its descendants that Linux offers. Imports little: the guard lives with it."""

from __future__ import annotations

import ctypes
import signal

__all__ = ["become_subreaper", "die_with_parent"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of init's. Source: prctl(2)."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel for signal `number` when the parent of this process ends. Source: prctl(2)."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
