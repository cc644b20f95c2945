"""No fault on the way from the cluster costs a change of state, and none but an outage is ever told."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.errors import NotFound, Unavailable
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import AccessDenied
from tests.unit.backends.kubernetes.cluster.conftest import connection
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, answers, black_hole, reset
from tests.unit.backends.kubernetes.cluster.things import PATH, open_store, thing, until, until_phase

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
GONE_AS_OF_OLD = {"type": "ERROR", "object": {"kind": "Status", "reason": "Expired", "message": "too old"}}


@pytest.mark.parametrize("event", [GONE, GONE_AS_OF_OLD, None], ids=["an event", "an old event", "a status"])
async def test_a_history_that_was_forgotten_is_listed_again_and_the_end_is_not_missed(
    event: dict[str, object] | None, server: FakeServer, settings: Settings, pace: Pace,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    server.put(PATH, thing("a"))
    server.put(PATH, thing("b"))
    async with open_store(settings, pace) as store:
        await store.ready()
        await server.watched()
        server.put(PATH, thing("a", "done"), quietly=True)
        server.remove(PATH, "b", quietly=True)
        server.compact()
        server.end_watches() if event is None else server.send(event)
        await until_phase(store, "a", "done")
        await until_phase(store, "b")
        assert store.last_seen_deleted("b") is not None
        assert (store.fault, store.stale_since) == (None, None)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_stream_that_says_nothing_is_given_up_after_the_heartbeat(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.faults["watch"].extend([black_hole] * 2)
    async with open_store(settings, replace(pace, heartbeat=0.2)) as store:
        await store.ready()
        await server.came("watch", 1)
        server.put(PATH, thing("a", "done"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await until_phase(store, "a", "done")
        # twice the heartbeat, and what a busy machine needs
        assert loop.time() - began < 2 * 0.2 + 2


async def test_bookmarks_keep_a_quiet_stream_alive_and_move_it_on(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async with open_store(settings, replace(pace, heartbeat=5)) as store:
        await store.ready()
        await server.watched()
        for number in range(5):
            server.put("/other", thing(f"t{number}"))
        server.bookmark()
        server.end_watches()
        await server.came("watch", 2)
        since = server.requests[-1].query["resourceVersion"]
    assert since == "105"
    assert server.count("list") == 1


async def test_streams_that_close_all_the_time_are_opened_again_without_a_word(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(PATH, thing("a"))
    async with open_store(settings, pace) as store:
        await store.ready()
        for count in range(1, 20):
            await server.came("watch", count)
            await server.watched()
            server.end_watches()
        server.put(PATH, thing("a", "done"))
        await until_phase(store, "a", "done")
        assert store.stale_since is None
    assert server.count("list") == 1
    assert [record for record in caplog.records if record.name.startswith("siflow_provider")] == []


async def test_streams_that_close_at_once_are_not_opened_as_fast_as_the_machine_can(
    server: FakeServer, settings: Settings, pace: Pace, waits: list[float]
) -> None:
    async def ends(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    server.faults["watch"].extend([ends] * 6)
    async with open_store(settings, pace) as store:
        await store.ready()
        await server.came("watch", 7)
    assert len(waits) == 6
    assert max(waits) > 4


async def test_a_connection_that_breaks_is_made_again_from_where_it_was(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "MODI')
        return await reset(request) or response

    server.put(PATH, thing("a"))
    server.faults["watch"].extend([breaks] * 3)
    async with open_store(settings, pace) as store:
        await store.ready()
        server.put(PATH, thing("a", "done"))
        await until_phase(store, "a", "done")
        assert store.stale_since is None
    assert server.count("list") == 1


async def test_what_no_event_told_is_seen_at_the_next_comparison(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.put(PATH, thing("a"))
    server.put(PATH, thing("b"))
    async with open_store(settings, replace(pace, relist=0.3)) as store:
        await store.ready()
        await server.watched()
        server.put(PATH, thing("a", "done"), quietly=True)
        server.remove(PATH, "b", quietly=True)
        async with asyncio.timeout(20):
            await asyncio.gather(until_phase(store, "a", "done"), until_phase(store, "b"))


async def test_an_outage_is_told_with_its_beginning_and_its_end(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.put(PATH, thing("a"))
    async with open_store(settings, replace(pace, tries=0)) as store:
        await store.ready()
        await server.watched()
        server.faults["watch"].append(answers(503))
        server.faults["list"].extend([answers(503, Retry_After="11")] * 3)
        server.end_watches()
        await until(store, "a", lambda: store.stale_since is not None)
        assert isinstance(store.fault, Unavailable)
        server.put(PATH, thing("a", "done"))
        await until(store, "a", lambda: store.stale_since is None)
        await until_phase(store, "a", "done")
    words = [record.message for record in caplog.records if record.name.endswith("outlook")]
    assert [word.split(PATH)[0] for word in words] == ["lost sight of ", ""]


async def test_the_wait_in_an_outage_grows_and_keeps_to_what_the_server_asks(
    server: FakeServer, settings: Settings, pace: Pace, waits: list[float]
) -> None:
    server.faults["list"].extend([answers(503)] * 12 + [answers(429, Retry_After="77")])
    async with open_store(settings, replace(pace, tries=0)) as store:
        with pytest.raises(Unavailable):
            await store.ready()
        await server.came("watch", 1)
    assert waits[0] < 1
    assert 15 <= waits[-2] <= 30
    assert 77 <= waits[-1] <= 77 + 30
    assert len(set(waits)) == len(waits)


async def test_a_login_that_ran_out_is_renewed_and_the_watch_goes_on(
    server: FakeServer, pace: Pace, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server.token = "old"
    server.put(PATH, thing("a"))
    async with open_store(connection(server.url, tokenFile=str(token)), pace) as store:
        await store.ready()
        await server.watched()
        server.token = "new"
        token.write_text("new")
        server.end_watches()
        await server.came("watch", 2)
        server.put(PATH, thing("a", "done"))
        await until_phase(store, "a", "done")
        assert store.stale_since is None


async def test_a_login_that_is_refused_for_good_is_told_and_tried_again(server: FakeServer, pace: Pace) -> None:
    server.token = "right"
    async with open_store(connection(server.url, token="wrong"), pace) as store:
        with pytest.raises(AccessDenied):
            await store.ready()
        server.token = "wrong"
        await until(store, "a", lambda: store.fault is None)
        await store.ready()


async def test_a_kind_that_the_cluster_gets_only_later_is_seen_then(
    server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.faults["list"].extend([answers(404, "", "404 page not found")] * 2)
    server.put(PATH, thing("a", "done"))
    async with open_store(settings, pace) as store:
        with pytest.raises(NotFound):
            await store.ready()
        await until_phase(store, "a", "done")


async def test_an_object_that_can_not_be_read_does_not_end_the_watch(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(PATH, thing("a"))
    async with open_store(settings, pace) as store:
        await store.ready()
        await server.watched()
        server.send({"type": "MODIFIED", "object": {"metadata": {"name": "odd"}}})
        await until(store, "a", lambda: store.fault is not None)
        server.put(PATH, thing("a", "done"))
        await until_phase(store, "a", "done")
    assert "reading" in caplog.text
