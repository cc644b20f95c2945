"""How often followers look at a run's files: soon while something changes, less often while nothing does.

Hundreds of them share a triggerer's event loop, and each look is a call in a thread. Started together they would also
look together, so that each pause is a little longer or shorter than told.
"""

from __future__ import annotations

import asyncio
import random

__all__ = ["LONGEST_SECONDS", "SHORTEST_SECONDS", "Pace"]

SHORTEST_SECONDS = 0.2
LONGEST_SECONDS = 1.0
"""An end or a line is seen that late at most, and a quarter more: a person who watches does not wait for it."""
_GROWTH = 1.25
_SPREAD = 0.25


class Pace:
    """The pauses of one follower.

    Example:
        pace = Pace()
        while True:
            changed = look()
            await pace.rest(changed=changed)
    """

    def __init__(self) -> None:
        self._seconds = SHORTEST_SECONDS

    async def rest(self, *, changed: bool) -> None:
        """Pause before the next look; `changed` says what the last one found."""
        self._seconds = SHORTEST_SECONDS if changed else min(self._seconds * _GROWTH, LONGEST_SECONDS)
        await asyncio.sleep(self._seconds * random.uniform(1 - _SPREAD, 1 + _SPREAD))
