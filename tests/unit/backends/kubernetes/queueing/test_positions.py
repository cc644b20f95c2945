from __future__ import annotations

import asyncio

import pytest

from siflow_provider.backends.kubernetes.cluster.shared import Cluster
from siflow_provider.backends.kubernetes.queueing.positions import Positions
from siflow_provider.backends.kubernetes.queueing.source import positions_of
from tests.unit.backends.kubernetes.queueing.answering import PENDING, Answering

PATH = PENDING.format(namespace="nlp", queue="gpu")


async def test_one_question_per_queue_whatever_the_number_of_tasks_that_wait(
    server: Answering, cluster: Cluster
) -> None:
    names = [f"w{index}" for index in range(200)]
    server.line_up("nlp", "gpu", *(("nlp", name) for name in names))
    positions = Positions(cluster.api)
    found = await asyncio.gather(*(positions.place("nlp", "gpu", name) for name in names))
    assert [place for place, _ in found] == list(range(1, 201))
    assert server.asked[PATH] == 1
    assert (await positions.place("nlp", "gpu", "w7"))[0] == 8
    assert server.asked[PATH] == 1


async def test_a_line_longer_than_a_page_is_read_to_its_end(server: Answering, cluster: Cluster) -> None:
    others = [("vision", f"v{index}") for index in range(1500)]
    server.line_up("nlp", "gpu", *others, ("nlp", "mine"))
    place, text = await Positions(cluster.api).place("nlp", "gpu", "mine")
    assert (place, text) == (1, "place 1 in its queue, 1501 in the whole ClusterQueue")
    assert server.asked[PATH] == 2


async def test_the_place_moves_up_with_the_next_look(server: Answering, cluster: Cluster) -> None:
    positions = Positions(cluster.api, interval=0.0)
    server.line_up("nlp", "gpu", ("nlp", "a"), ("nlp", "b"))
    assert (await positions.place("nlp", "gpu", "b"))[0] == 2
    server.line_up("nlp", "gpu", ("nlp", "b"))
    await asyncio.sleep(0.05)
    assert (await positions.place("nlp", "gpu", "b"))[0] == 1


async def test_a_cluster_that_does_not_tell_places_leaves_them_open(server: Answering, cluster: Cluster) -> None:
    assert await Positions(cluster.api).place("nlp", "gpu", "a") == (None, "")
    server.denied.add(PATH)
    place, text = await Positions(cluster.api).place("nlp", "gpu", "a")
    assert place is None
    assert "may not be read" in text


async def test_a_server_that_is_down_keeps_the_last_known_place(server: Answering, cluster: Cluster) -> None:
    positions = Positions(cluster.api, interval=0.0)
    server.line_up("nlp", "gpu", ("nlp", "a"))
    assert (await positions.place("nlp", "gpu", "a"))[0] == 1
    server.broken = True
    assert (await positions.place("nlp", "gpu", "a"))[0] == 1


async def test_an_answer_of_another_shape_costs_the_place_and_nothing_else(server: Answering, cluster: Cluster) -> None:
    server.waiting[PATH] = [{"positionInClusterQueue": 0}]
    place, text = await Positions(cluster.api).place("nlp", "gpu", "b")
    assert place is None
    assert text == "its place in the queue can't be read (KeyError 'metadata')"


async def test_all_tasks_of_a_cluster_share_one_view(cluster: Cluster) -> None:
    assert positions_of(cluster) is positions_of(cluster)


async def test_who_waits_is_woken_when_the_line_moves_and_not_before(server: Answering, cluster: Cluster) -> None:
    positions = Positions(cluster.api, interval=0.01)
    server.line_up("nlp", "gpu", ("nlp", "a"), ("nlp", "b"))
    await positions.place("nlp", "gpu", "b")
    first, second = asyncio.Event(), asyncio.Event()
    leaving = [positions.follow("nlp", "gpu", name, wake) for name, wake in (("a", first), ("b", second))]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.wait(), 0.2)
    assert server.asked[PATH] > 1
    assert not first.is_set()
    server.line_up("nlp", "gpu", ("nlp", "b"))
    await asyncio.wait_for(second.wait(), 10)
    assert await positions.place("nlp", "gpu", "b") == (1, "place 1 in its queue")
    for leave in leaving:
        leave()
    await asyncio.sleep(0.05)
    asked = server.asked[PATH]
    await asyncio.sleep(0.1)
    assert server.asked[PATH] == asked
