"""What `doctor` looks at on this machine: whether runs can be kept, and what they may hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from siflow_provider.backends.local.capacity import machine
from siflow_provider.backends.local.off_loop import off_loop
from siflow_provider.backends.local.store import FOLDERS, StateDir
from siflow_provider.core.checkup import Check
from siflow_provider.errors import BackendError, UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["check_local"]


async def check_local(settings: Settings) -> list[Check]:
    """Return the checks of a state folder; [] where there is none, which the backend itself tells."""
    try:
        state = await off_loop(StateDir.open, settings.state_dir)
    except (BackendError, RuntimeError):
        return []
    shut = [name for name in FOLDERS if not os.access(state.path / name, os.W_OK | os.X_OK)]
    found = f"{state.path}: {', '.join(shut)} can't be written" if shut else str(state.path)
    mend = "give this user the right to write there, or choose another folder by `state_dir` or SIFLOW_LOCAL_STATE_DIR"
    return [Check("state folder", not shut, found, mend), _capacity(state)]


def _capacity(state: StateDir) -> Check:
    try:
        has = machine(state)
    except UsageError as error:
        return Check("capacity", False, error.message, error.hint or "correct the file, or remove it")
    found = f"{has.millicores / 1000:g} cores, {has.memory / 2**30:.2f} GiB of memory, {has.gpus} GPUs"
    return Check("capacity", True, found)
