"""How long a replica may take to end after SIGTERM: to write a last checkpoint, say."""

from __future__ import annotations

import os

from siflow_provider.errors import UsageError
from siflow_provider.spec.duration import parse_duration

__all__ = ["GRACE_ENV", "GRACE_SECONDS", "grace_seconds"]

GRACE_ENV = "SIFLOW_LOCAL_GRACE_PERIOD"
"""Whoever submits a run may set it, as text such as `30s` or `2m`; the run keeps it."""
GRACE_SECONDS = 10.0
"""Without that."""
_LONGEST = 40.0


def grace_seconds() -> float:
    """Return the grace of the runs that this process submits or supervises.

    Raises:
        UsageError: the variable holds no length of time, or one that a stop does not wait for.
    """
    text = os.environ.get(GRACE_ENV, "")
    if not text:
        return GRACE_SECONDS
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{GRACE_ENV} is {text!r}: {error}.") from None
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(f"{GRACE_ENV} is {text!r}; from 0s to {_LONGEST:g}s, since a stop gives up after a minute.")
    return seconds
