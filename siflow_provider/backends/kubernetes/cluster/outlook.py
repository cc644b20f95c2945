"""What a feed sees, put where those who wait look: objects on the shelf, bells for their keys, sight lost and found."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.errors import Denied
    from siflow_provider.backends.kubernetes.cluster.shelf import Shelf
    from siflow_provider.errors import BackendError

__all__ = ["Bells", "Outlook"]

log = logging.getLogger(__name__)


class Bells:
    """Events to set when something about a key changed: work for those who wait for it, and for nobody else."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[object, asyncio.Event]] = {}

    def hang(self, key: str, owner: object, bell: asyncio.Event) -> None:
        """Set `bell` from now on when the key changes."""
        self._by_key.setdefault(key, {})[owner] = bell

    def take_down(self, key: str, owner: object) -> None:
        """Leave the owner alone from now on. Idempotent."""
        same = self._by_key.get(key, {})
        same.pop(owner, None)
        if not same:
            self._by_key.pop(key, None)

    def ring(self, keys: Iterable[str] | None = None) -> None:
        """Set the bells of these keys; of all with None."""
        for key in tuple(self._by_key) if keys is None else keys:
            for bell in self._by_key.get(key, {}).values():
                bell.set()


class Outlook:
    """One feed's view: of all objects, or of the one of a name.

    Args:
        what: what is seen, for the log.
        shelf: where its objects are put.
        bells: who is told.
        name: of the one object; None for all.

    Attributes:
        stale_since: since when the state is not known; None while it is, and before the first look.
        fault: why the last look went wrong; None when it went well.
        clear: the objects were listed once.
        refused: the login may not list them, so nothing is seen this way.
    """

    def __init__(self, what: str, shelf: Shelf, bells: Bells, name: str | None = None) -> None:
        self.stale_since: datetime | None = None
        self.fault: BackendError | None = None
        self.clear = False
        self.refused: Denied | None = None
        self._what = what
        self._shelf = shelf
        self._bells = bells
        self._name = name
        self._waiting: set[asyncio.Event] = set()

    async def first(self) -> None:
        """Return when the objects were listed once, or listing them was refused.

        Raises:
            BackendError: the last look went wrong; a copy, since many may raise it.
        """
        while not self.clear and self.refused is None:
            if self.fault is not None:
                raise copy.copy(self.fault)
            looked = asyncio.Event()
            self._waiting.add(looked)
            try:
                await looked.wait()
            finally:
                self._waiting.discard(looked)

    def page(self, items: Iterable[dict[str, Any]]) -> None:
        """These objects are there."""
        self._bells.ring(self._shelf.put(items))

    def listed(self, uids: set[str]) -> None:
        """The objects of these uids are there and no others; the state is known again."""
        self._bells.ring(self._shelf.drop(self._shelf.uids(self._name) - uids))
        self.clear, self.fault, self.refused = True, None, None
        if self.stale_since is not None:
            log.info("%s can be seen again, after losing sight of it at %s", self._what, self.stale_since.isoformat())
            self.stale_since = None
            self._bells.ring()
        self._end_of_look()

    def event(self, kind: str, item: dict[str, Any]) -> None:
        """One object was `ADDED`, `MODIFIED` or `DELETED`."""
        self._bells.ring(self._shelf.remove(item) if kind == "DELETED" else self._shelf.put([item]))

    def failed(self, error: BackendError) -> None:
        """The state is not known now."""
        self.fault = error
        if self.stale_since is None:
            self.stale_since = datetime.now(UTC)
            log.warning("lost sight of %s: %s", self._what, error)
            self._bells.ring()
        self._end_of_look()

    def refuse(self, error: Denied) -> None:
        """The objects may not be listed."""
        if self.refused is None:
            log.warning("%s can't be listed, so each object is watched alone: %s", self._what, error)
        self.refused, self.fault, self.stale_since = error, None, None
        self._bells.ring()
        self._end_of_look()

    def _end_of_look(self) -> None:
        for looked in self._waiting:
            looked.set()
