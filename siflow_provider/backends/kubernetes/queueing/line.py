"""The line of tasks before one LocalQueue: who stands where, and how fast the line has moved.

The visibility API matches a LocalQueue by its name only, so same-named queues of other namespaces are mixed into its
answer, positions too: here they are left out, and the rest is counted anew.

source: Kueue v0.17.0 pkg/visibility/storage/pending_workloads_lq.go
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Line", "Standing", "standings"]

_WINDOW = 3600.0
_FEWEST = 3
"""Fewer tasks that left say nothing about a pace."""
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one Workload stands, from 1: among those of its LocalQueue, and of the whole ClusterQueue."""

    place: int
    overall: int


def standings(items: Iterable[Mapping[str, Any]], namespace: str) -> dict[str, Standing]:
    """Return the Workloads of one namespace in a visibility answer, in their order.

    Example:
        >>> rows = [("other", "x", 0), ("ml", "a", 1), ("ml", "b", 2)]
        >>> items = [{"metadata": {"namespace": n, "name": w}, "positionInClusterQueue": p} for n, w, p in rows]
        >>> standings(items, "ml")
        {'a': Standing(place=1, overall=2), 'b': Standing(place=2, overall=3)}
    """
    own = [item for item in items if item["metadata"].get("namespace") == namespace]
    # Go leaves no number out here; JSON of other versions may leave out a zero
    own.sort(key=lambda item: item.get("positionInClusterQueue", 0))
    return {
        item["metadata"]["name"]: Standing(place, item.get("positionInClusterQueue", 0) + 1)
        for place, item in enumerate(own, start=1)
    }


class Line:
    """One LocalQueue's waiting tasks over time.

    An estimate of the wait is made from nothing but the line itself: how many tasks before this one's place left it
    within the last hour, as far as it was watched. Where fewer than three did, there is none.
    """

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._since: float | None = None
        self._left: deque[tuple[float, int]] = deque()
        self._places_left: list[int] = []

    def __len__(self) -> int:
        return len(self._standings)

    def update(self, found: Mapping[str, Standing], now: float) -> None:
        """Take a new look; `now` in seconds of a clock that only rises."""
        if self._since is None:
            self._since = now
        gone = sorted(old.place for name, old in self._standings.items() if name not in found)
        # of several that left together each was first when its turn came
        self._left.extend((now, place - before) for before, place in enumerate(gone))
        while self._left and self._left[0][0] < now - _WINDOW:
            self._left.popleft()
        self._places_left = sorted(before for _, before in self._left)
        self._standings = dict(found)

    def tell(self, name: str, now: float) -> tuple[int | None, str]:
        """Return the place of a Workload and a sentence about it; None when it does not wait here."""
        standing = self._standings.get(name)
        if standing is None:
            return None, ""
        parts = [f"place {standing.place} in its queue"]
        if standing.overall != standing.place:
            parts.append(f"{standing.overall} in the whole ClusterQueue")
        estimate = self._estimate(standing.place, now)
        return standing.place, ", ".join(parts) + (f"; {estimate}" if estimate else "")

    def _estimate(self, place: int, now: float) -> str:
        moved = bisect_right(self._places_left, place)
        if moved < _FEWEST or self._since is None:
            return ""
        watched = min(_WINDOW, now - self._since)
        wait = watched / moved * place
        return f"about {_rough(wait)} more at the pace of the last {_rough(watched)}"


def _rough(seconds: float) -> str:
    """Return a duration in steps wide enough that it does not change with every look."""
    minutes = max(1.0, seconds / _MINUTE)
    step = 1 if minutes < 5 else 5 if minutes < 60 else 30  # noqa: PLR2004 - minutes, and how coarse from there on
    rounded = max(step, round(minutes / step) * step)
    hours, rest = divmod(rounded, 60)
    return f"{rounded} min" if not hours else f"{hours} h" + (f" {rest} min" if rest else "")
