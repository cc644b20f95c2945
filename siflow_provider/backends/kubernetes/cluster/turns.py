"""Turns at work that thousands wake up for together: an event loop runs all that is ready before it hears its sockets.

Ten thousand followers that look at their runs in one round of the loop keep everything else in the process waiting for
ten seconds: other runs' ends, heartbeats, time limits.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Turns"]


class Turns:
    """Lets so many pass in one round of the event loop, first come, first served. Who is alone passes at once.

    Args:
        at_once: how many; each is expected to work for a millisecond or two.

    Example:
        await turns.mine()
        look_at_what_changed()
    """

    def __init__(self, at_once: int = 5) -> None:
        self._at_once = at_once
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def mine(self) -> None:
        """Return when it is the caller's turn."""
        loop = asyncio.get_running_loop()
        if self._passed < self._at_once:
            if not self._passed:
                loop.call_soon(self._begin_round, loop)
            self._passed += 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passed = 0
        while self._waiting and self._passed < self._at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                turn.set_result(None)
                self._passed += 1
        if self._passed:
            loop.call_soon(self._begin_round, loop)
