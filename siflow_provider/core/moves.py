"""Which instance an attempt went to and what moves came before: told with each submission, for whoever adopts it."""

from __future__ import annotations

from collections.abc import Mapping

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.identity import LABEL_PREFIX

__all__ = ["Moves"]

_COUNT, _QUEUED = f"{LABEL_PREFIX}moves", f"{LABEL_PREFIX}queued-before"
_FLAVOR = f"{LABEL_PREFIX}instance-index"


class Moves(Frozen):
    """The moves before one attempt. A submission that is given up is deleted: only the next one can tell of it.

    Attributes:
        count: earlier submissions of the run that ended by a move; they cost no retry.
        queued_seconds: time in the queue before the moves that led to this very attempt.
        flavor: index of the listed instance that this attempt went to.

    Example:
        >>> Moves.of(Moves(count=2, queued_seconds=90).annotations()).count
        2
    """

    count: int = 0
    queued_seconds: float = 0.0
    flavor: int = 0

    def annotations(self) -> dict[str, str]:
        """Return them as annotations; {} for a run that went to its first instance and never moved."""
        moved = {_COUNT: str(self.count), _QUEUED: str(self.queued_seconds)} if self.count else {}
        return {**moved, **({_FLAVOR: str(self.flavor)} if self.flavor else {})}

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Moves:
        """Read them back; what somebody else wrote there counts as none."""
        try:
            return cls(
                count=int(annotations.get(_COUNT, "0")),
                queued_seconds=float(annotations.get(_QUEUED, "0")),
                flavor=int(annotations.get(_FLAVOR, "0")),
            )
        except ValueError:
            return cls()
