"""What a process knows of one kind of objects in one namespace, for all who wait there: one list, one watch.

A change wakes those who wait for its key and nobody else. Where the login may not list the namespace, each object that
somebody waits for is read and watched alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.feed import Feed, every_object, one_object
from siflow_provider.backends.kubernetes.cluster.shelf import KeyOf, Shelf
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api
    from siflow_provider.backends.kubernetes.cluster.resources import Resource

__all__ = ["Store", "Subscription"]

log = logging.getLogger(__name__)


class Subscription:
    """One who waits for changes of one key; made by `Store.subscribe`, used as `async with`."""

    def __init__(self, store: Store, key: str, name: str, wake: asyncio.Event | None) -> None:
        self._store = store
        self.key = key
        self.name = name
        self.wake = wake or asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._store.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._store.leave(self)

    async def changed(self) -> None:
        """Return once something about the key changed since the last call (or since the subscription began).

        Also returns when the store loses sight of the cluster (`Store.stale_since`) or sees it again. What changed is
        not said: look at `Store.objects`. Changes between two calls are never lost, and count as one.
        """
        await self.wake.wait()
        self.wake.clear()


class Store:
    """The objects of one kind in one namespace.

    Args:
        api: where to ask.
        resource: the kind.
        namespace: where; None for a kind of the whole cluster.
        key: object -> key; None for an object that is not to be kept.
        selector: label selector; "" for all.
    """

    def __init__(self, api: Api, resource: Resource, namespace: str | None, *, key: KeyOf, selector: str = "") -> None:
        self.resource = resource
        self.namespace = namespace
        self.stale_since: datetime | None = None
        """Since when the state is not known; None while it is (or before the first look)."""
        self.fault: BackendError | None = None
        """Why the last look went wrong; None when it went well."""
        self._api = api
        self._path = resource.path(namespace)
        self._selector = selector
        self._shelf = Shelf(key)
        self._subscribers: dict[str, set[Subscription]] = {}
        self._singles: dict[str, _Single] = {}
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._synced = False
        self.alone: Denied | None = None
        """Why objects are watched one by one; None where the whole namespace is."""

    def start(self) -> None:
        """Begin to list and watch."""
        if self._task is None:
            self._task = in_background(self._run())

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        tasks = [self._task, *(single.task for single in self._singles.values())]
        self._task = None
        self._singles.clear()
        await _ended(task for task in tasks if task is not None)

    async def ready(self) -> None:
        """Return when the objects were listed once.

        Raises:
            BackendError: they can't be: no answer (BackendUnavailable), no such kind (NotFound), no login (Denied).
                The store goes on trying, so this can be called again.
        """
        while not self._synced and self.alone is None:
            if self.fault is not None:
                raise copy.copy(self.fault)
            await self._looked.wait()

    def objects(self, key: str) -> tuple[dict[str, Any], ...]:
        """Return the objects of this key, by name, cut down as `trim` says. They are copies."""
        return self._shelf.objects(key)

    def last_seen_deleted(self, key_or_uid: str) -> dict[str, Any] | None:
        """Return the last state of the object of this uid, or of the latest one of this key, that was deleted.

        The newest few thousand are kept.
        """
        return self._shelf.gone(key_or_uid)

    def subscribe(self, key: str, *, name: str = "", wake: asyncio.Event | None = None) -> Subscription:
        """Wait for changes of a key.

        Args:
            key: which.
            name: the object's name, for a login that may not list the namespace.
            wake: an event to set, so that one waiter can wait for several stores.

        Example:
            async with store.subscribe(key) as subscription:
                while not done(store.objects(key)):
                    await subscription.changed()
        """
        return Subscription(self, key, name, wake)

    async def enter(self, subscription: Subscription) -> None:
        """Count a subscription in, by its `async with`.

        Raises:
            Denied: the namespace can't be listed, and the subscription names no object.
        """
        self._subscribers.setdefault(subscription.key, set()).add(subscription)
        try:
            if self.alone is not None:
                await self._watch_alone(subscription)
        except BaseException:
            await self.leave(subscription)
            raise

    async def leave(self, subscription: Subscription) -> None:
        """Count a subscription out."""
        same = self._subscribers.get(subscription.key, set())
        same.discard(subscription)
        if not same:
            self._subscribers.pop(subscription.key, None)
        single = self._singles.get(subscription.name)
        if single is not None:
            single.users.discard(subscription)
            if not single.users:
                del self._singles[subscription.name]
                await _ended([single.task])

    async def _watch_alone(self, subscription: Subscription) -> None:
        if not subscription.name:
            raise copy.copy(self.alone or Denied("the namespace can't be listed."))
        single = self._singles.get(subscription.name)
        if single is None:
            single = self._singles[subscription.name] = _Single(self, subscription.name)
            feed = Feed(self._api, one_object(self._path, subscription.name), single)
            single.task = in_background(feed.run())
        single.users.add(subscription)
        await single.looked.wait()

    async def _run(self) -> None:
        sink = _Whole(self)
        try:
            await Feed(self._api, every_object(self._path, self._selector), sink).run()
        except Denied as error:
            self.alone = error
            log.warning(
                "%s of %s can't be listed with this login, so each one is watched alone: %s",
                self.resource.plural, self.namespace or "the cluster", error,
            )  # fmt: skip
            self._looked.set()
            self.stale_since = self.fault = None
            self._wake_all()

    def take(self, changed: Iterable[str]) -> None:
        """Wake those who wait for these keys."""
        for key in changed:
            for subscription in self._subscribers.get(key, ()):
                subscription.wake.set()

    def seen(self) -> None:
        """The state is known."""
        self._synced = True
        self.fault = None
        if self.stale_since is not None:
            log.info("%s are seen again, after losing sight at %s", self._path, self.stale_since.isoformat())
            self.stale_since = None
            self._wake_all()
        self._looked.set()

    def unseen(self, error: BackendError) -> None:
        """The state is not known now."""
        self.fault = error
        if self.stale_since is None:
            self.stale_since = datetime.now(UTC)
            log.warning("lost sight of %s: %s", self._path, error)
            self._wake_all()
        self._looked.set()
        self._looked.clear()

    @property
    def shelf(self) -> Shelf:
        """What is known."""
        return self._shelf

    def _wake_all(self) -> None:
        self.take(tuple(self._subscribers))


class _Whole:
    """Tells a store what a feed of all its objects saw."""

    name: str | None = None

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, items: Iterable[dict[str, Any]]) -> None:
        self._store.take(self._store.shelf.put(items))

    def listed(self, uids: set[str]) -> None:
        shelf = self._store.shelf
        self._store.take(shelf.drop(shelf.uids(self.name) - uids))
        self._store.seen()

    def event(self, kind: str, item: dict[str, Any]) -> None:
        shelf = self._store.shelf
        self._store.take(shelf.remove(item) if kind == "DELETED" else shelf.put([item]))

    def failed(self, error: BackendError) -> None:
        self._store.unseen(error)


class _Single(_Whole):
    """Tells a store what a feed of one object saw."""

    task: asyncio.Task[None]

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(store)
        self.name = name
        self.users: set[Subscription] = set()
        self.looked = asyncio.Event()

    def listed(self, uids: set[str]) -> None:
        super().listed(uids)
        self.looked.set()

    def failed(self, error: BackendError) -> None:
        super().failed(error)
        self.looked.set()


def in_background(work: Any) -> asyncio.Task[None]:
    """Start a task of nobody: in Airflow a task inherits whose log its lines go to, and this one serves all."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    waiting = [task for task in tasks if task is not asyncio.current_task()]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
