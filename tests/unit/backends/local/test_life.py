"""A PyTorchJob from submit to its end, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.status import LogCursor, Phase
from tests.unit.backends.local.following import end_of, lines_of, processes_of, running, supervisor_of, until
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs


async def test_two_replicas_run_and_succeed_with_torch_rendezvous_variables(backend: LocalBackend) -> None:
    ref = await backend.submit(
        backend.render(task('echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"', workers=1), context())
    )
    status = await end_of(backend, ref)
    assert status.phase is Phase.SUCCEEDED, status
    assert [replica.phase for replica in status.replicas] == [Phase.SUCCEEDED] * 2
    assert await lines_of(backend, ref) == ["rank 0 of 2 at 127.0.0.1"]
    assert await lines_of(backend, ref, "worker-0") == ["rank 1 of 2 at 127.0.0.1"]


async def test_failing_rank_is_named_with_its_exit_code_and_last_lines(backend: LocalBackend) -> None:
    command = 'if [ "$RANK" = 1 ]; then for i in $(seq 30); do echo "line $i"; done; exit 3; fi; sleep 600'
    ref = await backend.submit(backend.render(task(command, workers=2), context()))
    status = await end_of(backend, ref)
    assert status.phase is Phase.FAILED
    failure = status.failure
    assert failure is not None
    assert (failure.replica, failure.rank, failure.exit_code) == ("worker-0", 1, 3)
    assert failure.last_lines == tuple(f"line {number}" for number in range(11, 31))
    assert [replica.phase for replica in status.replicas] == [Phase.STOPPED, Phase.FAILED, Phase.STOPPED]


async def test_stop_ends_the_run_and_says_who_asked(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("sleep 600", workers=1), context()))
    await running(backend, ref)
    await backend.stop(ref, by="ada")
    status = await backend.status(ref)
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "ada")
    await backend.stop(ref, by="bob")
    assert (await backend.status(ref)).stopped_by == "ada"


async def test_of_ranks_that_fail_together_the_first_is_named(backend: LocalBackend, state_dir: Path) -> None:
    """The supervisor stands still while both fail, so that it finds both ended at once."""
    command = (
        'if [ "$RANK" = 1 ]; then read -r < "$GO"; echo "ValueError: the cause"; exit 1; fi; '
        'read -r < "$GO.2"; sleep 0.1; echo "connection closed by peer"; exit 9'
    )
    first, second = state_dir / "go", state_dir / "go.2"
    os.mkfifo(first)
    os.mkfifo(second)
    ref = await backend.submit(backend.render(task(command, workers=1, env={"GO": str(first)}), context()))
    await running(backend, ref)
    supervisor = supervisor_of(state_dir, ref)
    supervisor.suspend()
    logs = state_dir / "runs" / ref.name / "logs"
    for fifo, name in ((first, "worker-0"), (second, "master-0")):
        await asyncio.to_thread(fifo.write_text, "go\n")
        await until(lambda log=logs / f"{name}.log": log.stat().st_size > 0)  # type: ignore[misc]
    await until(lambda: processes_of(ref) == [])
    supervisor.resume()
    failure = (await end_of(backend, ref)).failure
    assert failure is not None
    assert (failure.replica, failure.exit_code, failure.last_lines) == ("worker-0", 1, ("ValueError: the cause",))


async def test_of_two_who_stop_the_first_is_named(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    await running(backend, ref)
    await asyncio.gather(*(backend.stop(ref, by=f"user-{number}") for number in range(6)))
    assert (await backend.status(ref)).stopped_by.startswith("user-")


async def test_starter_that_ignores_sigterm_does_not_pass_that_on(backend: LocalBackend) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        ref = await backend.submit(backend.render(task("sleep 600"), context()))
    finally:
        signal.signal(signal.SIGTERM, before)
    await running(backend, ref)
    started = time.monotonic()
    await backend.stop(ref, by="ada")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(("code", "phase"), [(0, Phase.SUCCEEDED), (7, Phase.FAILED)])
async def test_run_that_ended_before_it_was_stopped_is_told_as_it_ended(
    backend: LocalBackend, state_dir: Path, code: int, phase: Phase
) -> None:
    gate = state_dir / "go"
    os.mkfifo(gate)
    ref = await backend.submit(backend.render(task(f'read -r < "$GO"; exit {code}', env={"GO": str(gate)}), context()))
    await running(backend, ref)
    supervisor = supervisor_of(state_dir, ref)
    supervisor.suspend()
    await asyncio.to_thread(gate.write_text, "go\n")
    await until(lambda: processes_of(ref) == [])
    stopping = asyncio.create_task(backend.stop(ref, by="ada"))
    await until((state_dir / "runs" / ref.name / "stop.json").exists)
    supervisor.resume()
    await stopping
    assert (await backend.status(ref)).phase is phase


async def test_run_goes_on_until_its_last_worker_has_ended(backend: LocalBackend) -> None:
    command = '[ "$RANK" = 0 ] && exit 0; sleep 1; exit 1'
    ref = await backend.submit(backend.render(task(command, workers=1), context()))
    seen = [status async for status in backend.watch(ref)]
    done = [each for each in seen if {one.name: one.phase for one in each.replicas}.get("master-0") is Phase.SUCCEEDED]
    assert (done[0].phase, seen[-1].phase) == (Phase.RUNNING, Phase.FAILED)


@pytest.mark.parametrize(
    "command", ['mkfifo "$SIFLOW_RESULTS"', 'mkdir "$SIFLOW_RESULTS"', 'ln -s /dev/zero "$SIFLOW_RESULTS"']
)
async def test_results_that_are_no_file_are_told_and_keep_nobody_waiting(backend: LocalBackend, command: str) -> None:
    ref = await backend.submit(backend.render(task(command), context()))
    status = await end_of(backend, ref)
    assert status.phase is Phase.SUCCEEDED
    assert "the results file is no regular file" in status.events[-1].text


async def test_logs_are_there_after_a_stop(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("echo begun; sleep 600"), context()))
    async with asyncio.timeout(60):
        async for line in backend.logs(ref, "all", LogCursor()):
            assert line.text == "begun"
            await backend.stop(ref, by="the test")
    assert await lines_of(backend, ref) == ["begun"]
