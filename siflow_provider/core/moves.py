"""What a run left behind when it moved to another instance: told with each later submission, for whoever adopts it."""

from __future__ import annotations

from collections.abc import Mapping

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.identity import LABEL_PREFIX

__all__ = ["Moves"]

_COUNT, _QUEUED = f"{LABEL_PREFIX}moves", f"{LABEL_PREFIX}queued-before"


class Moves(Frozen):
    """The moves before one attempt. A submission that is given up is deleted: only the next one can tell of it.

    Attributes:
        count: earlier submissions of the run that ended by a move; they cost no retry.
        queued_seconds: time in the queue before the moves that led to this very attempt.

    Example:
        >>> Moves.of(Moves(count=2, queued_seconds=90).annotations()).count
        2
    """

    count: int = 0
    queued_seconds: float = 0.0

    def annotations(self) -> dict[str, str]:
        """Return them as annotations; {} for a run that never moved."""
        return {_COUNT: str(self.count), _QUEUED: str(self.queued_seconds)} if self.count else {}

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Moves:
        """Read them back; what somebody else wrote there counts as none."""
        try:
            return cls(count=int(annotations[_COUNT]), queued_seconds=float(annotations[_QUEUED]))
        except (KeyError, ValueError):
            return cls()
