"""Objects of a kind that only the tests know, and a store of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import Resource
from siflow_provider.backends.kubernetes.cluster.store import Store
from siflow_provider.backends.settings import Settings

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = THINGS.path("ml")


def thing(name: str, phase: str = "new", key: str | None = None) -> dict[str, Any]:
    """An object that is found by its label `key`."""
    return {"metadata": {"name": name, "labels": {"key": key or name}}, "status": {"phase": phase}}


def label(item: dict[str, Any]) -> str | None:
    """The key of a thing."""
    return str(item["metadata"]["labels"]["key"])


@asynccontextmanager
async def open_store(settings: Settings, pace: Pace) -> AsyncIterator[Store]:
    """A store of things that lists and watches."""
    async with Api(settings, pace=pace) as api:
        store = Store(api, THINGS, "ml", key=label)
        store.start()
        try:
            yield store
        finally:
            await store.close()


def phases(store: Store, key: str) -> list[str]:
    """The phases of the things of a key, by name."""
    return [item["status"]["phase"] for item in store.objects(key)]


async def until(store: Store, key: str, true: Callable[[], bool], *, name: str = "") -> None:
    """Wait for changes of a key until something is true."""
    async with asyncio.timeout(20), store.subscribe(key, name=name) as subscription:
        while not true():
            await subscription.changed()


async def until_phase(store: Store, key: str, *wanted: str, name: str = "") -> None:
    """Wait until the things of a key have these phases."""
    await until(store, key, lambda: phases(store, key) == [*wanted], name=name)
