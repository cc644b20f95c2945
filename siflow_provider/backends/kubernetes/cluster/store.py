"""What a process knows of one kind of objects in one namespace, for all who wait there: one list, one watch.

A change wakes those who wait for its key and nobody else. Where the login may not list the namespace, each object that
somebody waits for is read and watched alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.feed import Collection, Feed, OneObject
from siflow_provider.backends.kubernetes.cluster.outlook import Bells, Outlook
from siflow_provider.backends.kubernetes.cluster.shelf import Kept, KeyOf, Shelf
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api
    from siflow_provider.backends.kubernetes.cluster.resources import Resource

__all__ = ["Store", "Subscription"]


class Subscription:
    """One who waits for changes of one key; made by `Store.subscribe`, used as `async with`."""

    def __init__(self, store: Store, key: str, name: str, wake: asyncio.Event | None) -> None:
        self.key = key
        self.name = name
        self.wake = wake or asyncio.Event()
        self._store = store

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


@dataclass(eq=False)
class _Single:
    """One object that is watched alone, and for whom."""

    outlook: Outlook
    task: asyncio.Task[None]
    users: set[Subscription] = field(default_factory=set)


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
        self._api = api
        self._path = resource.path(namespace)
        self._source = Collection(self._path, selector)
        self._shelf = Shelf(key)
        self._bells = Bells()
        self._outlook = Outlook(self._path, self._shelf, self._bells)
        self._singles: dict[str, _Single] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to list and watch."""
        if self._task is None:
            self._task = _in_background(self._run())

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        tasks = [single.task for single in self._singles.values()]
        self._singles.clear()
        task, self._task = self._task, None
        await _ended([*tasks, task] if task is not None else tasks)

    @property
    def alone(self) -> Denied | None:
        """Why objects are watched one by one; None where the whole namespace is."""
        return self._outlook.refused

    @property
    def stale_since(self) -> datetime | None:
        """Since when the state is not known; None while it is. What `objects` returns is as old as this."""
        return next((outlook.stale_since for outlook in self._outlooks() if outlook.stale_since is not None), None)

    @property
    def fault(self) -> BackendError | None:
        """Why the state is not known now; None while it is."""
        return next((outlook.fault for outlook in self._outlooks() if outlook.fault is not None), None)

    async def ready(self) -> None:
        """Return when the objects were listed once, or will be watched one by one.

        Raises:
            BackendError: they can't be: no answer (BackendUnavailable), no such kind (NotFound), no login (Denied).
                The store goes on trying, so this can be called again.
        """
        await self._outlook.first()

    def objects(self, key: str) -> tuple[dict[str, Any], ...]:
        """Return the objects of this key, by name, cut down as `trim` says. They are copies."""
        return self._shelf.objects(key)

    def kept(self, key: str) -> tuple[Kept, ...]:
        """Return the same objects as they are kept, for who holds on to one."""
        return self._shelf.kept(key)

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

        Raises:
            Denied: (on entering) the namespace can't be listed, and no name is given.

        Example:
            async with store.subscribe(key) as subscription:
                while not done(store.objects(key)):
                    await subscription.changed()
        """
        return Subscription(self, key, name, wake)

    async def enter(self, subscription: Subscription) -> None:
        """Count a subscription in; its `async with` does. Waits until the objects were looked at once."""
        self._bells.hang(subscription.key, subscription, subscription.wake)
        try:
            with contextlib.suppress(BackendError):  # told by `fault` and `stale_since`
                await self._outlook.first()
            if self.alone is not None:
                await self._watch_alone(subscription)
        except BaseException:
            await self.leave(subscription)
            raise

    async def leave(self, subscription: Subscription) -> None:
        """Count a subscription out; its `async with` does."""
        self._bells.take_down(subscription.key, subscription)
        single = self._singles.get(subscription.name)
        if single is None:
            return
        single.users.discard(subscription)
        if not single.users:
            del self._singles[subscription.name]
            if not self._outlook.clear:  # else the list sees it too
                self._shelf.forget(subscription.name)
            await _ended([single.task])

    async def _watch_alone(self, subscription: Subscription) -> None:
        if not subscription.name:
            raise copy.copy(self.alone or Denied(f"{self._path} can't be listed."))
        single = self._singles.get(subscription.name)
        if single is None:
            path = self.resource.path(self.namespace, subscription.name)
            outlook = Outlook(path, self._shelf, self._bells, subscription.name)
            feed = Feed(self._api, OneObject(self._path, subscription.name), outlook)
            single = self._singles[subscription.name] = _Single(outlook, _in_background(feed.run()))
        single.users.add(subscription)
        with contextlib.suppress(BackendError):
            await single.outlook.first()

    async def _run(self) -> None:
        """List and watch; where that is refused, let each object be watched alone, and ask again.

        Soon at first, as rights may just be being given anew, and less often where they never were.
        """
        pace, refusals = self._api.pace, 0
        while True:
            try:
                await Feed(self._api, self._source, self._outlook).run()
            except Denied as error:
                self._outlook.refuse(error)
            await pace.sleep(min(pace.relist, pace.poll * 2.0 ** min(refusals, 16)))
            refusals += 1

    def _outlooks(self) -> Iterable[Outlook]:
        return (self._outlook, *(single.outlook for single in self._singles.values()))


def _in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task of nobody: in Airflow a task inherits whose log its lines go to, and this one serves all."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
