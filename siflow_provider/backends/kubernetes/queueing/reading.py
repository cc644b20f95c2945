"""Lists of a cluster's objects, kept for some seconds and shared by everybody who asks for quota at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from siflow_provider.backends.kubernetes.cluster.errors import Denied, NotFound
from siflow_provider.backends.kubernetes.queueing.picture import Items

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api
    from siflow_provider.backends.kubernetes.cluster.resources import Resource

__all__ = ["Reader"]

_FORBIDDEN = 403
_T = TypeVar("_T")


@dataclass(slots=True)
class _Kept:
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    until: float = 0.0
    items: Items | None = None


@dataclass(slots=True)
class _Made:
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    parts: tuple[object, ...] = ()
    result: Any = None


class Reader:
    """Reads lists; None is what may not be read.

    Args:
        api: the cluster.
        keep_seconds: how long a list is good. Ten sensors that look together cost one list.
    """

    def __init__(self, api: Api, *, keep_seconds: float = 5.0) -> None:
        self._api = api
        self._keep = keep_seconds
        self._lists: dict[tuple[str, object], _Kept] = {}
        self._made: dict[object, _Made] = {}

    def forget(self) -> None:
        """Let every list be read anew, for whoever has just changed what they show."""
        self._lists.clear()

    async def items(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        trim: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        selector: str = "",
    ) -> Items | None:
        """Return all objects of a kind; none where the cluster does not know the kind, None where it may not be read.

        Args:
            resource: the kind.
            namespace: None for a kind of the whole cluster, or for all namespaces.
            trim: what to keep of an object.
            selector: a field selector.

        Raises:
            BackendUnavailable: no answer now.
        """
        kept = self._lists.setdefault((resource.path(namespace), trim), _Kept())
        async with kept.reading:
            clock = asyncio.get_running_loop()
            if clock.time() >= kept.until:
                kept.items = await self._read(resource.path(namespace), trim, selector)
                kept.until = clock.time() + self._keep
            return kept.items

    async def pages(self, resource: Resource, *, limit: int) -> AsyncGenerator[Items, None]:
        """Yield a kind of the whole cluster page by page, kept for nobody; nothing where it may not be read."""
        try:
            async for page in self._api.pages(resource.path(), limit=limit):
                yield tuple(page.get("items") or ())
        except Denied as error:
            _let_pass(error)

    async def _read(
        self, path: str, trim: Callable[[dict[str, Any]], dict[str, Any]] | None, selector: str
    ) -> Items | None:
        found: list[dict[str, Any]] = []
        try:
            async for page in self._api.pages(path, {"fieldSelector": selector} if selector else None):
                items = page.get("items") or []
                found += map(trim, items) if trim is not None else items
        except NotFound:
            return ()
        except Denied as error:
            _let_pass(error)
            return None
        return tuple(found)

    async def one(self, resource: Resource, namespace: str | None, name: str) -> Items | None:
        """Return one object in a tuple; none where it does not exist, None where it may not be read."""
        path = resource.path(namespace, name)
        kept = self._lists.setdefault((path, None), _Kept())
        async with kept.reading:
            clock = asyncio.get_running_loop()
            if clock.time() >= kept.until:
                kept.items = await self._get(path)
                kept.until = clock.time() + self._keep
            return kept.items

    async def made(self, make: Callable[..., _T], *parts: object) -> _T:
        """Return what `make` makes of these very lists, made once for all who ask, and beside the event loop."""
        kept = self._made.setdefault(make, _Made())
        async with kept.making:
            if len(kept.parts) != len(parts) or any(old is not new for old, new in zip(kept.parts, parts, strict=True)):
                kept.result = await asyncio.to_thread(make, *parts)
                kept.parts = parts
            result: _T = kept.result
            return result

    async def _get(self, path: str) -> Items | None:
        try:
            return (await self._api.get(path),)
        except NotFound:
            return ()
        except Denied as error:
            _let_pass(error)
            return None


def _let_pass(error: Denied) -> None:
    """Let a missing right pass; with a wrong login nothing at all is known."""
    if error.status != _FORBIDDEN:
        raise error
