"""Whatever is killed, nothing of a run is left running and nobody is told that a dead run runs."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.grace import GRACE_ENV
from siflow_provider.backends.local.lock import is_held
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import FailureClass, Phase
from tests.unit.backends.local.following import end_of, has_ended, processes_of, running, supervisor_of, until
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs

_ESCAPING = "(setsid sleep 611 & setsid bash -c 'sleep 612 & disown; sleep 613' & ) ; sleep 614"

_STARTER = """
import asyncio, sys
from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.backends.local.lock import is_held
from siflow_provider.core.identity import Identity
from tests.unit.backends.local.tasks import context, task

async def main():
    async with LocalBackend(Settings(state_dir=sys.argv[1])) as backend:
        identity = Identity(dag_id="d", task_id="t", run_id=sys.argv[2])
        manifest = backend.render(task("sleep 0.3; echo done"), context(identity))
        print("ready", flush=True)
        await backend.submit(manifest)
        print("submitted", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@contextmanager
def _bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def _submit_and_be_killed(state_dir: Path, run_id: str, word: bytes, seconds: float) -> None:
    """Kill a starter's whole process group so many seconds after it has said `word`."""
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(state_dir), run_id],
        cwd=Path(__file__).parents[4],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        while starter.stdout.readline() != word + b"\n":
            assert starter.poll() is None
        select.select([], [], [], seconds)
        os.killpg(starter.pid, signal.SIGKILL)


async def test_killed_starter_leaves_the_run_alone(backend: LocalBackend, state_dir: Path) -> None:
    await asyncio.to_thread(_submit_and_be_killed, state_dir, "r", b"submitted", 0.0)
    ref = await backend.find(Identity(dag_id="d", task_id="t", run_id="r"))
    assert ref is not None
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED


@pytest.mark.parametrize("milliseconds", [0, 2, 5, 10, 20, 40, 80])
async def test_starter_killed_at_any_moment_of_a_submit_leaves_one_run_or_none(
    backend: LocalBackend, state_dir: Path, milliseconds: int
) -> None:
    await asyncio.to_thread(_submit_and_be_killed, state_dir, "r", b"ready", milliseconds / 1000)
    identity = Identity(dag_id="d", task_id="t", run_id="r")
    found = await backend.find(identity)
    ref = await backend.submit(backend.render(task("sleep 0.3; echo done"), context(identity)))
    assert found in (None, ref)
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED
    assert [status.ref for status in await backend.runs()] == [ref]


async def test_killed_supervisor_is_lost_and_leaves_no_process(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task(_ESCAPING, workers=1), context()))
    await running(backend, ref)
    await until(lambda: len(processes_of(ref)) >= 8)
    supervisor_of(state_dir, ref).kill()
    status = await end_of(backend, ref)
    assert status.phase is Phase.LOST
    assert status.failure is not None
    assert status.failure.category is FailureClass.LOST
    assert "SIGKILL" in status.failure.summary
    assert processes_of(ref) == []


async def test_killed_guard_ends_the_run_and_leaves_no_process(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task(_ESCAPING), context()))
    await running(backend, ref)
    await until(lambda: len(processes_of(ref)) >= 4)
    guard = supervisor_of(state_dir, ref).parent()
    assert guard is not None
    guard.kill()
    assert (await end_of(backend, ref)).phase is Phase.LOST
    assert processes_of(ref) == []


async def test_stop_finds_what_outlived_a_wholly_killed_supervision(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task(_ESCAPING), context()))
    await running(backend, ref)
    await until(lambda: len(processes_of(ref)) >= 4)
    supervisor = supervisor_of(state_dir, ref)
    guard = supervisor.parent()
    assert guard is not None
    guard.suspend()
    supervisor.kill()
    guard.kill()
    assert (await end_of(backend, ref)).phase is Phase.LOST
    ended_at = (await backend.status(ref)).ended_at
    assert ended_at is not None
    await backend.stop(ref, by="ada")
    assert processes_of(ref) == []
    status = await backend.status(ref)
    assert (status.phase, status.ended_at) == (Phase.LOST, ended_at)


async def test_run_whose_folder_is_removed_ends_itself_within_seconds(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task(f"trap '' TERM; {_ESCAPING}", workers=1), context()))
    await running(backend, ref)
    await until(lambda: len(processes_of(ref)) >= 8)
    supervisor = supervisor_of(state_dir, ref)
    guard = supervisor.parent()
    assert guard is not None
    folder = state_dir / "runs" / ref.name
    await asyncio.to_thread(shutil.rmtree, folder)
    assert (await end_of(backend, ref)).phase is Phase.LOST
    async with asyncio.timeout(5):
        await until(lambda: has_ended(supervisor) and has_ended(guard))
    assert processes_of(ref) == []
    assert not folder.exists()
    assert (await backend.quota(task("true"))).fits_now


async def test_run_that_takes_the_place_of_a_removed_one_is_not_touched(backend: LocalBackend, state_dir: Path) -> None:
    identity = Identity(dag_id="d", task_id="t", run_id="r")
    manifest = backend.render(task("sleep 600"), context(identity))
    first = await backend.submit(manifest)
    await running(backend, first)
    old = supervisor_of(state_dir, first)
    old.suspend()  # so that it meets the new folder, not a missing one
    await asyncio.to_thread(shutil.rmtree, state_dir / "runs" / first.name)
    second = await backend.submit(manifest)
    assert (second.name, second.uid != first.uid) == (first.name, True)
    old.resume()
    await running(backend, second)
    await until(lambda: has_ended(old) and processes_of(first) == [])
    assert (await backend.status(first)).phase is Phase.LOST
    assert (await backend.status(second)).phase is Phase.RUNNING
    assert len(processes_of(second)) > 0
    assert (state_dir / "queue" / f"{second.name}.json").exists()


async def test_waiting_run_whose_folder_is_removed_gives_up_its_place(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true", cpu="100000"), context()))
    folder = state_dir / "runs" / ref.name
    await until(lambda: "can never fit" in json.loads((folder / "state.json").read_text())["reason"])
    supervisor = supervisor_of(state_dir, ref)
    await asyncio.to_thread(shutil.rmtree, folder)
    await until(lambda: has_ended(supervisor))
    assert (await backend.status(ref)).phase is Phase.LOST
    await backend.quota(task("true"))
    assert not (state_dir / "queue" / f"{ref.name}.json").exists()


async def test_rank_that_ignores_sigterm_is_killed_after_the_grace(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GRACE_ENV, "1s")
    command = "trap '' TERM; if [ $RANK = 1 ]; then exit 7; fi; while true; do sleep 1; done"
    ref = await backend.submit(backend.render(task(command, workers=1), context()))
    status = await end_of(backend, ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert (status.failure.replica, status.failure.exit_code) == ("worker-0", 7)
    assert processes_of(ref) == []


async def test_processes_that_escape_end_with_a_run_that_succeeds(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("setsid sleep 611 & disown; echo done"), context()))
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED
    assert processes_of(ref) == []


async def test_forged_state_is_lost_and_its_process_is_not_touched(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    await until(lambda: not is_held(state_dir / "runs" / ref.name / "lock"))
    path = state_dir / "runs" / ref.name / "state.json"
    state = json.loads(path.read_text())
    with _bystander() as bystander:
        forged = {**state["replicas"][0], "pid": bystander.pid, "phase": "running"}
        path.write_text(json.dumps({**state, "phase": "running", "replicas": [forged], "supervisor": bystander.pid}))
        assert (await backend.status(ref)).phase is Phase.LOST
        await backend.stop(ref, by="ada")
        assert bystander.poll() is None


async def test_run_of_an_earlier_boot_is_lost(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    await until(lambda: not is_held(state_dir / "runs" / ref.name / "lock"))
    path = state_dir / "runs" / ref.name / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "phase": "running", "boot_id": "another"}))
    status = await backend.status(ref)
    assert status.phase is Phase.LOST
    assert "started anew" in status.reason
    assert status.ended_at is not None
    assert status == await backend.status(ref)
