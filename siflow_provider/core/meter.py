"""What an attempt cost: the time for which it held GPUs, each stretch with the size that it had then.

A Ray cluster grows and shrinks while it runs, and a snapshot tells the size of its moment only. So whoever follows the
run notes each change, and keeps the changes for a follower that starts anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.core.checkpoints import Checkpoints
from siflow_provider.core.frozen import Frozen
from siflow_provider.core.outcome import Totals

if TYPE_CHECKING:
    from datetime import datetime

    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.status import JobRef, Status

__all__ = ["Meter", "Sizes"]


class Sizes(Frozen):
    """How many GPUs an attempt held from when on.

    Attributes:
        uid: the backend's id of the attempt; "" while nothing is known.
        changes: (seconds for which it had been admitted, GPUs from there on), the first at 0.

    Example:
        >>> Sizes(uid="u", changes=((0.0, 2.0), (60.0, 4.0))).gpu_seconds(100.0)
        280.0
    """

    uid: str = ""
    changes: tuple[tuple[float, float], ...] = ()

    def with_size(self, held_seconds: float, gpus: float) -> Sizes:
        """Return them with the size of this moment; the first one seen counts from the beginning."""
        if not self.changes:
            return self.model_copy(update={"changes": ((0.0, gpus),)})
        if self.changes[-1][1] == gpus:
            return self
        return self.model_copy(update={"changes": (*self.changes, (held_seconds, gpus))})

    def gpu_seconds(self, held_seconds: float) -> float:
        """Return the sum over all stretches, up to so many seconds."""
        ends = [*(min(start, held_seconds) for start, _ in self.changes[1:]), held_seconds]
        starts = (min(start, held_seconds) for start, _ in self.changes)
        sizes = (gpus for _, gpus in self.changes)
        return sum((end - start) * gpus for start, end, gpus in zip(starts, ends, sizes, strict=True))


class Meter:
    """Notes the sizes of one attempt as they are seen.

    Args:
        ref: the attempt.
        reporter: keeps the sizes, once there are several.
        sizes: what an earlier follower had kept; another attempt's count for nothing.
    """

    def __init__(self, ref: JobRef, reporter: Reporter, sizes: Sizes) -> None:
        self._sizes = sizes if sizes.uid == ref.uid else Sizes(uid=ref.uid)
        known = self._sizes
        self._kept = Checkpoints(
            "how many GPUs the run held when", known, lambda: self._sizes if self._varies else known, reporter.sizes,
            reporter, pause=reporter.checkpoint_seconds,
        )  # fmt: skip

    @property
    def _varies(self) -> bool:
        return len(self._sizes.changes) > 1

    def see(self, status: Status, now: datetime) -> None:
        """Note the size of a snapshot; the queue may have taken its place back, then it holds nothing now."""
        if status.admitted_at is None:
            return
        self._sizes = self._sizes.with_size(status.running_seconds(now), status.gpus)
        if self._varies:
            self._kept.move()

    def totals(self, status: Status, now: datetime) -> Totals:
        """Return what the attempt took up to its end or `now`."""
        totals = Totals.of(status, now)
        if not self._sizes.changes:
            return totals
        return totals.model_copy(update={"gpu_seconds": self._sizes.gpu_seconds(totals.running_seconds)})

    async def run(self) -> None:
        """Keep the sizes whenever there is a new one, until cancelled."""
        await self._kept.run()

    async def close(self) -> None:
        """Keep what is not kept yet."""
        await self._kept.close()
