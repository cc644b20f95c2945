from __future__ import annotations

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.core.quota import Verdict
from tests.platform.server import RunningPlatform
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
