"""Lists, then watches, for ever, and tells a store what it saw; each fault on the way has its cure here.

    the stream ends, the net breaks    watch again from the last version
    410, as answer or as event         list again and compare; look at one object alone now and then
    silence                            list again and compare: a dead connection says nothing
    everything seems well              list again and compare anyway, every `Pace.relist` seconds
    no answer, 429, 5xx, no login      say so, wait (as long as was asked), list again
source: Kubernetes v1.36 API concepts, "Efficient detection of changes"; client-go v0.35 `tools/cache/reflector.go`
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from siflow_provider.backends.kubernetes.cluster.errors import Denied, Expired, NotFound, Silent
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["Collection", "Feed", "OneObject", "Sink"]

log = logging.getLogger(__name__)

_FORBIDDEN = 403
_SOON_OVER = 1.0
_PAGE = 250  # a page of pods is read and cut down in some 50 ms, in which nothing else runs

Page = tuple[list[dict[str, Any]], str]
"""Objects, and the version of the whole list."""


class Sink(Protocol):
    """Whom a feed tells; `clear` once the objects were listed."""

    clear: bool

    def page(self, items: Iterable[dict[str, Any]]) -> None:
        """These objects are there."""

    def listed(self, uids: set[str]) -> None:
        """The objects of these uids are there and no others; the state is known again."""

    def event(self, kind: str, item: dict[str, Any]) -> None:
        """One object was `ADDED`, `MODIFIED` or `DELETED`."""

    def failed(self, error: BackendError) -> None:
        """The state is not known now."""


class Source(Protocol):
    """What a feed reads: all objects of a path, or one of them."""

    path: str
    params: dict[str, str]

    def pages(self, api: Api) -> AsyncIterator[Page]: ...


class Collection:
    """All objects of a collection.

    Args:
        path: of the collection.
        selector: label selector; "" for all.
    """

    def __init__(self, path: str, selector: str = "") -> None:
        self.path = path
        self.params = {"labelSelector": selector} if selector else {}

    async def pages(self, api: Api) -> AsyncIterator[Page]:
        """Yield what is there."""
        async for page in api.pages(self.path, self.params, limit=_PAGE):
            yield page.get("items") or [], _version(page)


class OneObject:
    """One object of a collection, for a login that may not list it.

    Args:
        path: of the collection.
        name: of the object.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.params = {"fieldSelector": f"metadata.name={name}"}
        self._name = name

    async def pages(self, api: Api) -> AsyncIterator[Page]:
        """Yield the object, or that there is none."""
        try:
            item = await api.get(f"{self.path}/{self._name}")
        except NotFound:
            yield [], ""
        else:
            yield [item], _version(item)


class Feed:
    """Keeps a store informed.

    Args:
        api: where to ask.
        source: what to read.
        sink: whom to tell.
    """

    def __init__(self, api: Api, source: Source, sink: Sink) -> None:
        self._api = api
        self._pace = api.pace
        self._source = source
        self._sink = sink
        self._failures = 0

    async def run(self) -> None:
        """Go on until cancelled; raises nothing but what says that the API may not be read at all.

        Raises:
            Denied: listing all objects is refused (403) and never went well; later it is a fault like others.
        """
        while True:
            began = self._now()
            wait = 0.0
            try:
                await self._look_and_follow()
            except Denied as error:
                if error.status == _FORBIDDEN and isinstance(self._source, Collection) and not self._sink.clear:
                    raise
                wait = self._failure(error)
            except BackendError as error:
                wait = self._failure(error)
            except Exception as error:  # a store that dies in silence would leave everybody waiting
                log.exception("reading %s went wrong", self._source.path)
                wait = self._failure(BackendError(f"reading {self._source.path} went wrong: {type(error).__name__}."))
            if wait == 0.0 and self._now() - began < _SOON_OVER:
                wait = self._pace.wait_before(1)
            if wait:
                await self._pace.sleep(wait)

    def _failure(self, error: BackendError) -> float:
        self._failures += 1
        self._sink.failed(error)
        return self._pace.wait_before(self._failures, error)

    async def _look_and_follow(self) -> None:
        try:
            version = await self._look()
        except Expired:
            return  # the list took so long that its own later pages are gone
        self._failures = 0
        try:
            await self._follow(version)
        except Silent:
            return
        except Expired:
            if isinstance(self._source, OneObject):
                # its version is that of its last change: while it does not change, the next watch is refused as well
                await self._pace.sleep(self._pace.spread(self._pace.poll))

    async def _look(self) -> str:
        seen: set[str] = set()
        version = ""
        async for items, of_page in self._source.pages(self._api):
            version = of_page
            self._sink.page(items)
            seen.update(str(item["metadata"].get("uid")) for item in items)
            await asyncio.sleep(0)
        self._sink.listed(seen)
        return version

    async def _follow(self, version: str) -> None:
        due = self._now() + self._pace.spread(self._pace.relist)
        hasty = 0
        while (left := due - self._now()) > 0:
            began = self._now()
            try:
                version = await self._watch(version, left)
            except Denied as error:
                if error.status != _FORBIDDEN:
                    raise
                # may be read, but not watched
                await self._pace.sleep(self._pace.spread(self._pace.poll))
                return
            hasty = hasty + 1 if self._now() - began < _SOON_OVER else 0
            if hasty:
                await self._pace.sleep(self._pace.wait_before(hasty))

    async def _watch(self, version: str, left: float) -> str:
        """Watch until the stream ends or the time is over; return the version to go on from."""
        ask = max(1, round(min(left, self._pace.spread(self._pace.watch))))
        params = {**self._source.params, "timeoutSeconds": str(ask)}
        if version:
            params["resourceVersion"] = version
        with contextlib.suppress(TimeoutError):  # where a proxy keeps the stream open longer than the server was asked
            async with asyncio.timeout(left), aclosing(self._api.watch(self._source.path, params)) as events:
                async for event in events:
                    version = _version(event["object"]) or version
                    if event["type"] != "BOOKMARK":
                        self._sink.event(event["type"], event["object"])
        return version

    @property
    def _now(self) -> Callable[[], float]:
        return asyncio.get_running_loop().time


def _version(item: dict[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("resourceVersion") or "")
