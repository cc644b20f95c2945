"""Blocking work with files, away from the event loop, and a file system's trouble in the words of every backend."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from siflow_provider.errors import AccessDenied, BackendUnavailable

__all__ = ["off_loop"]

_MENDS = {
    errno.ENOSPC: "Free some space on the disk of the state folder.",
    errno.EDQUOT: "Free some space: the user's share of the disk of the state folder is used up.",
    errno.EROFS: "Mount the disk of the state folder writable, or choose another folder by SIFLOW_LOCAL_STATE_DIR.",
    errno.EMFILE: "Raise the limit of open files of this process (`ulimit -n`).",
}
_P = ParamSpec("_P")
_T = TypeVar("_T")


async def off_loop(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what `call` returns in a thread.

    Raises:
        AccessDenied: this user may not do that.
        BackendUnavailable: the file system can't now (no descriptors left, a full or dead disk); no reason to give a
            run up.
    """
    try:
        return await asyncio.to_thread(call, *args, **kwargs)
    except PermissionError as error:
        raise AccessDenied(f"{error.filename} may not be used: {error.strerror}.") from error
    except OSError as error:
        raise BackendUnavailable(
            f"{error.filename or 'the state folder'} can't be used now: {error.strerror}.",
            hint=_MENDS.get(error.errno or 0, ""),
        ) from error
