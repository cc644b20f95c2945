from __future__ import annotations

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import Verdict
from tests.platform.client import NODES
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK
from tests.unit.backends.platform.tasks import context, task


async def test_the_users_own_share_counts_beside_the_pool(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.call(lambda: running.platform.engine.pools[0].shares.update(demo=30))
    running.change(run_seconds=60)
    await backend.submit(backend.render(task(units=20), context()))
    report = await backend.quota(task(units=20))
    assert report.available.verdict is Verdict.YES
    assert report.remaining.verdict is Verdict.NO
    assert "need 20 units, have 10 units" in report.why_not()
    assert not report.never
    assert (await backend.quota(task(units=31))).never


async def test_without_a_share_of_its_own_the_users_rest_is_unknown(
    running: RunningPlatform, backend: PlatformBackend
) -> None:
    running.call(running.platform.engine.pools[0].shares.clear)
    report = await backend.quota(task())
    assert report.remaining.verdict is Verdict.UNKNOWN
    assert report.fits_now


async def test_what_can_not_be_read_is_unknown_and_never_no(running: RunningPlatform, backend: PlatformBackend) -> None:
    running.change(faults=[{"path": "user-quota", "status": 403}])
    report = await backend.quota(task())
    assert report.remaining.verdict is Verdict.UNKNOWN
    assert report.ever.verdict is Verdict.YES
    running.change(faults=[{"path": "instances$", "status": 500, "times": 9}])
    report = await backend.quota(task(units=5000))
    assert {report.available.verdict, report.ever.verdict} == {Verdict.UNKNOWN}
    assert not report.never


async def test_idle_capacity_is_told_in_numbers_and_its_fragments_are_not_guessed(backend: PlatformBackend) -> None:
    report = await backend.quota(task())
    assert report.idle.verdict is Verdict.UNKNOWN
    assert "100 of 100 units" in report.idle.text


async def test_fragments_are_told_where_the_connection_spells_how_nodes_are_listed(
    running: RunningPlatform, settings: Settings
) -> None:
    running.change(run_seconds=60)
    spelt = settings.model_copy(update={"api_overrides": {**settings.api_overrides, "nodes": NODES}})
    async with PlatformBackend(spelt, QUICK) as backend:
        await backend.submit(backend.render(task(units=40), context()))
        # 100 units on 13 nodes, 40 of them taken evenly: 60 are free, and on no node more than 5
        report = await backend.quota(task(units=6, workers=5))
        assert (report.available.verdict, report.idle.verdict) == (Verdict.YES, Verdict.NO)
        assert "0 of 6 replicas of 6 units fit on 13 nodes, 60 left over in pieces" in report.idle.text
        assert (await backend.quota(task(units=5, workers=9))).idle.verdict is Verdict.YES
        running.change(faults=[{"path": "nodes$", "status": 403}])
        assert (await backend.quota(task())).idle.verdict is Verdict.UNKNOWN


async def test_the_head_is_counted_on_the_node_where_it_takes_room_from_no_worker(
    running: RunningPlatform, settings: Settings
) -> None:
    spelt = settings.model_copy(update={"api_overrides": {**settings.api_overrides, "nodes": NODES}})
    async with PlatformBackend(spelt, QUICK) as backend:
        # 12 nodes of 8 units and one of 4: two workers of 3 leave 2 units, which hold the head
        full = task(units=3, workers=25, ray={"head": {"instance": "cpu.demo-1", "units": 2}})
        assert (await backend.quota(full)).idle.verdict is Verdict.YES
        above = await backend.quota(task(units=3, workers=26, ray={"head": {"instance": "cpu.demo-1", "units": 2}}))
        assert (above.available.verdict, above.idle.verdict) == (Verdict.YES, Verdict.NO)
        assert "26 of 27 replicas" in above.idle.text
