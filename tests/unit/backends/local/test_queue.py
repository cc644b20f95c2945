"""The queue of one machine: shared by many processes, in order, never more than the machine has."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.lock import is_held
from siflow_provider.backends.local.processes import MARKER_ENV
from siflow_provider.core.quota import Verdict
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import UsageError
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.unit.backends.local.following import end_of, running, supervisor_of, until
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs

_LEAVING = timedelta(seconds=0.2)
"""A run gives its share back when its processes are gone, a moment before it writes its end."""
_SUBMITTER = """
import asyncio, sys
from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.settings import Settings
from tests.unit.backends.local.tasks import context, task

async def main():
    async with LocalBackend(Settings(state_dir=sys.argv[1])) as backend:
        for cpu in ("1", "2", "1"):
            await backend.submit(backend.render(task("sleep 0.3", cpu=cpu), context()))

asyncio.run(main())
"""


@pytest.fixture
def two_cores(state_dir: Path) -> None:
    state_dir.mkdir()
    (state_dir / "capacity.json").write_text(json.dumps({"cpu": 2, "memory": "1Gi", "gpus": 0}))


async def _submit(backend: LocalBackend, cpu: str, *, priority: str = "medium", seconds: float = 600) -> JobRef:
    return await backend.submit(backend.render(task(f"sleep {seconds}", cpu=cpu, priority=priority), context()))


async def _queued_with(backend: LocalBackend, ref: JobRef, position: int) -> Status:
    async with asyncio.timeout(30):
        async for status in backend.watch(ref):
            assert status.phase is Phase.QUEUED, status
            if status.queue is not None and status.queue.position == position:
                return status
    raise AssertionError("unreachable")


@pytest.mark.usefixtures("two_cores")
async def test_waiting_run_says_its_position_and_which_number_is_short(backend: LocalBackend) -> None:
    first = await _submit(backend, "1500m")
    await running(backend, first)
    second = await _submit(backend, "1")
    third = await _submit(backend, "500m")
    status = await _queued_with(backend, second, 1)
    assert status.queue is not None
    assert status.queue.reason == "waits for room: 1 cores needed, free 0.5 cores"
    status = await _queued_with(backend, third, 2)
    assert status.queue is not None
    assert status.queue.reason == f"waits for its turn; 1 ahead, first {second.name} (priority medium)"
    assert status.queued_seconds > 0
    await backend.stop(second, by="ada")
    assert (await backend.status(second)).phase is Phase.STOPPED
    await running(backend, third)


@pytest.mark.usefixtures("two_cores")
async def test_higher_priority_goes_first_and_then_the_earlier(backend: LocalBackend) -> None:
    holder = await _submit(backend, "2")
    await running(backend, holder)
    refs = [await _submit(backend, "2", priority=word, seconds=0.1) for word in ("low", "medium", "high", "medium")]
    await asyncio.gather(*(_waits(backend, ref) for ref in refs))
    await backend.stop(holder, by="ada")
    ends = [await end_of(backend, ref) for ref in refs]
    assert sorted(range(4), key=lambda index: _moment(ends[index].admitted_at)) == [2, 1, 3, 0]


async def _waits(backend: LocalBackend, ref: JobRef) -> None:
    async for status in backend.watch(ref):
        if status.queue is not None and status.queue.position is not None:
            return


@pytest.mark.usefixtures("two_cores")
async def test_run_that_can_never_fit_does_not_hold_up_the_others(backend: LocalBackend) -> None:
    never = await _submit(backend, "3", priority="high")
    status = await _queued_with(backend, never, 1)
    assert status.queue is not None
    assert status.queue.reason == "can never fit on this machine: 3 cores needed, it has 2 cores"
    assert (await end_of(backend, await _submit(backend, "2", seconds=0.1))).phase is Phase.SUCCEEDED


@pytest.mark.usefixtures("two_cores")
async def test_killed_supervisor_gives_its_share_back(backend: LocalBackend, state_dir: Path) -> None:
    holder = await _submit(backend, "2")
    await running(backend, holder)
    waiting = await _submit(backend, "2", seconds=0.1)
    guard = supervisor_of(state_dir, holder).parent()
    assert guard is not None
    guard.suspend()
    supervisor_of(state_dir, holder).kill()
    guard.kill()
    assert (await end_of(backend, waiting)).phase is Phase.SUCCEEDED
    assert (await backend.status(holder)).phase is Phase.LOST


@pytest.mark.usefixtures("two_cores")
async def test_who_asks_for_the_quota_leaves_out_a_dead_run_and_ends_none_of_its_processes(
    backend: LocalBackend, state_dir: Path
) -> None:
    ref = await _submit(backend, "2")
    await running(backend, ref)
    supervisor = supervisor_of(state_dir, ref)
    guard = supervisor.parent()
    assert guard is not None
    guard.suspend()
    supervisor.kill()
    guard.kill()
    entry = state_dir / "queue" / f"{ref.name}.json"
    await until(lambda: not is_held(state_dir / "runs" / ref.name / "lock"))
    left = await asyncio.create_subprocess_exec("sleep", "600", env={MARKER_ENV: ref.uid})
    try:
        assert (await backend.quota(task("true", cpu="2"))).fits_now
        assert left.returncode is None
        assert entry.exists()
        next_one = await _submit(backend, "2", seconds=0.1)
        assert (await end_of(backend, next_one)).phase is Phase.SUCCEEDED
        assert await left.wait() == -signal.SIGKILL
        assert not entry.exists()
    finally:
        if left.returncode is None:
            left.kill()


@pytest.mark.usefixtures("two_cores")
async def test_four_processes_that_submit_at_once_never_get_more_than_there_is(
    backend: LocalBackend, state_dir: Path
) -> None:
    submitters = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SUBMITTER, str(state_dir), cwd=Path(__file__).parents[4]
        )
        for _ in range(4)
    ]
    assert [await submitter.wait() for submitter in submitters] == [0] * 4
    statuses = await backend.runs()
    assert len(statuses) == 12
    ends = [await end_of(backend, status.ref) for status in statuses]
    assert {status.phase for status in ends} == {Phase.SUCCEEDED}
    _expect_room_for_all(ends, state_dir)
    _expect_order(ends)


def _cores(status: Status, state_dir: Path) -> float:
    manifest = json.loads((state_dir / "runs" / status.ref.name / "manifest.json").read_text())
    return Resources.of(manifest["document"]["need"]).cpu


def _expect_room_for_all(ends: list[Status], state_dir: Path) -> None:
    """Each run holds its share from its admission until its end at the earliest."""
    spans = [(status.admitted_at, status.ended_at, _cores(status, state_dir)) for status in ends]
    for moment, _, _ in spans:
        held = [cores for start, end, cores in spans if start and end and moment and start <= moment < end - _LEAVING]
        assert sum(held) <= 2


def _expect_order(ends: list[Status]) -> None:
    by_submit = sorted(ends, key=lambda status: _moment(status.submitted_at))
    admitted = [_moment(status.admitted_at) for status in by_submit]
    assert admitted == sorted(admitted)


def _moment(moment: datetime | None) -> datetime:
    assert moment is not None
    return moment


@pytest.mark.usefixtures("two_cores")
async def test_quota_gives_four_answers_with_numbers(backend: LocalBackend) -> None:
    fits = await backend.quota(task("true", cpu="500m", workers=3))
    assert (fits.ever.verdict, fits.available.verdict, fits.fits_now) == (Verdict.YES, Verdict.YES, True)
    assert fits.idle.text == "unused on this machine: cpu 2, memory 1.00 GiB, gpu 0; 4 of 4 replicas of this size fit"
    alone = await backend.quota(task("true", cpu="500m"))
    assert alone.idle.text.endswith("; 1 of 1 replica of this size fits")
    holder = await _submit(backend, "1500m")
    await running(backend, holder)
    later = await backend.quota(task("true", cpu="500m", workers=1))
    assert (later.ever.verdict, later.available.verdict) == (Verdict.YES, Verdict.NO)
    assert (
        later.why_not()
        == "the task does not fit: cpu short; cpu: need 1 cores, have 0.5 cores in this machine's free share"
    )
    assert "1 of 2 replicas" in later.idle.text


@pytest.mark.usefixtures("two_cores")
async def test_task_larger_than_the_machine_is_told_as_never(backend: LocalBackend) -> None:
    report = await backend.quota(task("true", cpu="1", memory="1Gi", workers=2))
    assert report.never
    assert [(short.resource, short.need, short.have) for short in report.ever.short] == [
        ("cpu", 3.0, 2.0),
        ("memory", 3 * 2.0**30, 2.0**30),
    ]


async def test_room_is_not_enough_while_others_wait_for_it(backend: LocalBackend, state_dir: Path) -> None:
    (state_dir / "capacity.json").write_text(json.dumps({"cpu": 2}))
    holder = await _submit(backend, "1500m")
    await running(backend, holder)
    waiting = await _submit(backend, "2")
    await _queued_with(backend, waiting, 1)
    report = await backend.quota(task("true", cpu="100m"))
    assert report.available.text == "there is room, but 1 run is before it"
    assert not report.fits_now


async def test_capacity_file_that_is_wrong_is_explained(backend: LocalBackend, state_dir: Path) -> None:
    (state_dir / "capacity.json").write_text('{"cores": 4}')
    with pytest.raises(UsageError, match=r"capacity\.json must be a mapping.*cpu"):
        await backend.quota(task("true"))


async def test_gpus_are_dealt_out_and_shown_to_the_replica(backend: LocalBackend, state_dir: Path) -> None:
    (state_dir / "capacity.json").write_text(json.dumps({"gpus": 4}))
    form = task('echo "gpus=$CUDA_VISIBLE_DEVICES"; sleep 600', workers=1)
    flavor = Flavor("gpu", Resources.of({"cpu": "10m", "memory": "1Mi", "nvidia.com/gpu": 1}), accelerator="gpu")
    form = replace(form, flavors=(flavor,))
    refs = [await backend.submit(backend.render(form, context())) for _ in range(2)]
    for ref in refs:
        assert (await running(backend, ref)).gpus == 2.0
    third = await backend.submit(backend.render(form, context()))
    status = await _queued_with(backend, third, 1)
    assert status.queue is not None
    assert status.queue.reason == "waits for room: 2 GPUs needed, free 0 GPUs"
    files = [
        state_dir / "runs" / ref.name / "logs" / f"{name}.log" for ref in refs for name in ("master-0", "worker-0")
    ]
    await until(lambda: all(file.read_text() for file in files))
    assert [file.read_text() for file in files] == ["gpus=0\n", "gpus=1\n", "gpus=2\n", "gpus=3\n"]
