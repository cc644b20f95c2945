"""Who of a run's replicas can be read at the moment: one node out of reach is no outage, all of them are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.errors import BackendUnavailable

__all__ = ["Contact"]


class Contact:
    """Keeps count of the replicas that are read, and of those among them that can't be."""

    def __init__(self) -> None:
        self._reading: set[str] = set()
        self._lost: set[str] = set()
        self._told: set[str] = set()

    def enter(self, replica: str) -> None:
        """Take note that the replica has a log to read."""
        self._reading.add(replica)

    def see(self, replica: str) -> None:
        """Take note that the replica's log can be read."""
        self._lost.discard(replica)

    def leave(self, replica: str) -> None:
        """Take note that there is nothing to read of the replica now."""
        self._reading.discard(replica)
        self._lost.discard(replica)

    def lose(self, replica: str, error: BackendUnavailable) -> bool:
        """Take note that the replica can't be read; say whether it is the first time.

        Raises:
            BackendUnavailable: nobody can be read: who reads has to know, since silence then means nothing.
        """
        self._lost.add(replica)
        if self._reading <= self._lost:
            raise error
        first = replica not in self._told
        self._told.add(replica)
        return first
