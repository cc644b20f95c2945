"""One list and one watch serve all who wait; no fault on the way costs a change of state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import Resource
from siflow_provider.backends.kubernetes.cluster.store import Store
from siflow_provider.backends.settings import Settings
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, answers, black_hole

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = THINGS.path("ml")


def thing(name: str, phase: str = "new", key: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"key": key or name}}, "status": {"phase": phase}}


def label(item: dict[str, Any]) -> str | None:
    return str(item["metadata"]["labels"]["key"])


@pytest.fixture
async def store(settings: Settings, pace: Pace) -> AsyncIterator[Store]:
    async with Api(settings, pace=pace) as api:
        opened = Store(api, THINGS, "ml", key=label)
        opened.start()
        yield opened
        await opened.close()


def phases(store: Store, key: str) -> list[str]:
    return [item["status"]["phase"] for item in store.objects(key)]


async def until(store: Store, key: str, wanted: list[str]) -> None:
    async with asyncio.timeout(10), store.subscribe(key) as subscription:
        while phases(store, key) != wanted:
            await subscription.changed()


async def test_a_thousand_who_wait_share_one_list_and_one_watch(server: FakeServer, store: Store) -> None:
    for number in range(1000):
        server.put(PATH, thing(f"t{number:04}"))
    await store.ready()
    await server.watched()
    waiting = [asyncio.create_task(until(store, f"t{number:04}", ["done"])) for number in range(1000)]
    for number in range(1000):
        server.put(PATH, thing(f"t{number:04}", "done"))
    await asyncio.gather(*waiting)
    lists = [request for request in server.requests if request.verb == "list"]
    assert sum("continue" not in request.query for request in lists) == 1
    assert server.count("watch") == 1


async def test_a_compacted_history_is_listed_again_and_the_end_is_not_missed(server: FakeServer, store: Store) -> None:
    server.put(PATH, thing("a"))
    await store.ready()
    await server.watched()
    server.put(PATH, thing("a", "done"), quietly=True)
    server.compact()
    server.end_watches()
    await until(store, "a", ["done"])
    assert store.fault is None


async def test_a_silent_stream_is_given_up_and_listed_again(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.faults["watch"].append(black_hole)
    async with Api(settings, pace=replace(pace, heartbeat=0.2)) as api:
        store = Store(api, THINGS, "ml", key=label)
        store.start()
        await store.ready()
        server.put(PATH, thing("a", "done"))
        await until(store, "a", ["done"])
        await store.close()


async def test_an_outage_is_told_and_its_end_too(server: FakeServer, settings: Settings, pace: Pace) -> None:
    async with Api(settings, pace=replace(pace, tries=0)) as api:
        store = Store(api, THINGS, "ml", key=label)
        store.start()
        await store.ready()
        await server.watched()
        async with store.subscribe("a") as subscription:
            server.faults["watch"].append(answers(503))
            server.faults["list"].extend([answers(503)] * 3)
            server.end_watches()
            await subscription.changed()
            assert store.stale_since is not None
            server.put(PATH, thing("a", "done"))
            async with asyncio.timeout(10):
                while store.stale_since is not None:
                    await subscription.changed()
            assert phases(store, "a") == ["done"]
        await store.close()
