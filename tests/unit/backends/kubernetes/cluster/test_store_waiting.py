"""Whoever waits is woken for a change of its own, sees what is there, and what was there last."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.settings import Settings
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, answers
from tests.unit.backends.kubernetes.cluster.things import PATH, open_store, phases, thing, until, until_phase


async def test_a_thousand_who_wait_share_one_list_and_one_watch(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    names = [f"t{number:04}" for number in range(1000)]
    for name in names:
        server.put(PATH, thing(name))
    async with open_store(settings, pace) as store:
        await store.ready()
        await server.watched()
        waiting = [asyncio.create_task(until_phase(store, name, "done")) for name in names]
        for name in names:
            server.put(PATH, thing(name, "done"))
        await asyncio.gather(*waiting)
    lists = [request for request in server.requests if request.verb == "list"]
    assert sum("continue" not in request.query for request in lists) == 1
    assert server.count("watch") == 1


async def test_a_change_wakes_those_who_wait_for_it_and_nobody_else(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a") as mine, store.subscribe("a") as same, store.subscribe("b") as other:
            server.put(PATH, thing("a-1", key="a"))
            await mine.changed()
            await same.changed()
            assert not other.wake.is_set()
            server.put(PATH, thing("a-2", "late", key="a"))
            await mine.changed()
        assert phases(store, "a") == ["new", "late"]


async def test_one_bell_serves_several_stores(server: FakeServer, settings: Settings, pace: Pace) -> None:
    bell = asyncio.Event()
    async with (
        open_store(settings, pace) as one,
        open_store(settings, pace) as two,
        one.subscribe("a", wake=bell),
        two.subscribe("b", wake=bell) as subscription,
    ):
        server.put(PATH, thing("a"))
        await subscription.changed()
        assert phases(one, "a") == ["new"]


async def test_changes_between_two_looks_are_not_lost(server: FakeServer, settings: Settings, pace: Pace) -> None:
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a") as subscription:
            server.put(PATH, thing("a"))
            await until_phase(store, "a", "new")
            async with asyncio.timeout(5):
                await subscription.changed()


async def test_the_last_state_of_what_was_deleted_is_the_one_of_the_deletion(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    uid = server.put(PATH, thing("a"))["metadata"]["uid"]
    async with open_store(settings, pace) as store:
        await store.ready()
        server.put(PATH, thing("a", "stopped"))
        last = server.remove(PATH, "a")
        await until(store, "a", lambda: store.last_seen_deleted("a") is not None)
        assert store.objects("a") == ()
        assert store.last_seen_deleted("a") == last
        assert store.last_seen_deleted(uid) == last
        again = server.put(PATH, {**thing("a"), "metadata": {**thing("a")["metadata"], "uid": "another"}})
        await until_phase(store, "a", "new")
        assert store.last_seen_deleted(again["metadata"]["uid"]) is None


async def test_without_the_right_to_list_each_object_is_watched_alone_and_that_is_said_once(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture
) -> None:
    server.denied.add("list")
    for name in ("a", "b"):
        server.put(PATH, thing(name))
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a", name="a"):
            assert phases(store, "a") == ["new"]
            assert phases(store, "b") == []
            server.put(PATH, thing("b", "done"))
            server.put(PATH, thing("a", "done"))
            await until_phase(store, "a", "done", name="a")
        with pytest.raises(Denied, match="cannot list"):
            async with store.subscribe("b"):
                pass
        async with store.subscribe("later", name="later"):
            server.put(PATH, thing("later"))
            await until_phase(store, "later", "new", name="later")
            server.remove(PATH, "later")
            await until(store, "later", lambda: store.last_seen_deleted("later") is not None, name="later")
        assert store.stale_since is None
    watches = [request.query["fieldSelector"] for request in server.requests if request.verb == "watch"]
    assert watches == ["metadata.name=a", "metadata.name=later"]
    assert caplog.text.count("each object is watched alone") == 1


async def test_an_object_alone_is_kept_as_long_as_somebody_looks_at_it(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.denied.add("list")
    server.put(PATH, thing("a"))
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a", name="a"):
            async with store.subscribe("a", name="a"):
                pass
            assert phases(store, "a") == ["new"]
        assert phases(store, "a") == []


async def test_without_the_right_to_watch_an_object_is_looked_at_again_and_again(
    server: FakeServer, settings: Settings, pace: Pace, waits: list[float]
) -> None:
    server.denied.update({"list", "watch"})
    server.put(PATH, thing("a"))
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a", name="a"):
            server.put(PATH, thing("a", "done"))
            await until_phase(store, "a", "done", name="a")
        assert store.stale_since is None
    assert any(13 <= wait <= 17 for wait in waits)


async def test_an_object_alone_that_last_changed_long_ago_is_not_asked_for_as_fast_as_the_server_can(
    server: FakeServer, settings: Settings, pace: Pace, waits: list[float]
) -> None:
    server.denied.add("list")
    server.put(PATH, thing("a"))
    server.put("/other", thing("b"))
    server.compact()
    async with open_store(settings, pace) as store:
        await store.ready()
        async with store.subscribe("a", name="a"):
            await server.came("get", 4)
            looks = [wait for wait in waits if 13 <= wait <= 17]
            server.put(PATH, thing("a", "done"))
            await until_phase(store, "a", "done", name="a")
        assert store.stale_since is None
    assert len(looks) >= 3


async def test_a_refusal_while_the_server_starts_heals(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.put(PATH, thing("a"))
    server.faults["list"].append(answers(403, "Forbidden", "not yet synced"))
    async with open_store(settings, replace(pace, relist=0.1)) as store:
        await store.ready()
        await server.watched()
        assert store.alone is None
        await until_phase(store, "a", "new")
