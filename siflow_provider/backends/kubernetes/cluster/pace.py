"""How long the client waits for what: one table, so that tests can be quick and nothing is capped in secret."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

__all__ = ["Pace"]


@dataclass(frozen=True)
class Pace:
    """Lengths in seconds. None of them bounds how long a watch, a log or a run may last.

    Attributes:
        connect: for a connection to stand, TLS included.
        answer: for the next bytes of an answer to come; the API server itself gives up after 60 s.
        tries: how long a call is tried again after passing faults before it is given up.
        first_wait, longest_wait: between two tries; it doubles, and half of it is random.
        longest_asked: what a server asks to wait (`Retry-After`) counts up to this.
        heartbeat: without an event or a bookmark (the API server sends one a minute) a watch counts as dead.
        relist: everything is listed and compared again after this time, whatever the watch says.
        watch: after about this time the server is asked to end a watch, so that connections spread over servers.
        poll: between two looks at an object that may not be watched, or whose version is too old to watch from.
        calls: requests at work at one time; streams apart.
        streams: log streams being opened at one time.
        sleep: waits; given by tests.
    """

    connect: float = 10.0
    answer: float = 65.0
    tries: float = 20.0
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_asked: float = 300.0
    heartbeat: float = 90.0
    relist: float = 900.0
    watch: float = 400.0
    poll: float = 15.0
    calls: int = 32
    streams: int = 32
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)

    def wait_before(self, attempt: int, error: BaseException | None = None) -> float:
        """Return how long to wait after the failed try number `attempt`, from 1: at least what its error asks for."""
        longest = min(self.longest_wait, self.first_wait * float(2 ** min(attempt - 1, 16)))
        asked = min(self.longest_asked, getattr(error, "retry_after", None) or 0.0)
        return asked + longest * (0.5 + random.random() / 2)

    def spread(self, seconds: float) -> float:
        """Return about `seconds`, so that what was started together does not come back together."""
        return seconds * (0.9 + random.random() / 5)
