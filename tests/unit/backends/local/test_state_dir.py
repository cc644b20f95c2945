"""The state directory: where it is, what is swept from it, and what happens when it can't be read."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from siflow_provider.backends.local import record, store
from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.checks import check_local
from siflow_provider.backends.local.lock import take
from siflow_provider.backends.local.record import read_state, write_state
from siflow_provider.backends.local.store import RunFolder, StateDir, write_json
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import LogCursor, Phase
from siflow_provider.errors import BackendUnavailable, UsageError
from siflow_provider.spec.policy import Monitoring
from tests.unit.backends.local.following import end_of, processes_of, running, supervisor_of, until
from tests.unit.backends.local.tasks import context, task


def test_settings_go_before_the_variable_and_that_before_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SIFLOW_LOCAL_STATE_DIR", raising=False)
    assert StateDir.open(None).path == tmp_path / "data" / "siflow"
    monkeypatch.setenv("SIFLOW_LOCAL_STATE_DIR", str(tmp_path / "variable"))
    assert StateDir.open(None).path == tmp_path / "variable"
    assert StateDir.open(str(tmp_path / "settings")).path == tmp_path / "settings"


def test_leavings_of_a_killed_starter_are_swept_and_one_at_work_is_left(tmp_path: Path) -> None:
    state = StateDir.open(str(tmp_path))
    old, busy, fresh = (state.path / "new" / name for name in ("old", "busy", "fresh"))
    for folder in (old, busy, fresh):
        folder.mkdir()
        (folder / "hidden.json").write_text("{}")
    long_ago = time.time() - 3600
    os.utime(old, (long_ago, long_ago))
    descriptor = take(busy / "lock")
    os.utime(busy, (long_ago, long_ago))
    state.sweep()
    os.close(descriptor)
    assert sorted(path.name for path in (state.path / "new").iterdir()) == ["busy", "fresh"]


async def test_other_systems_are_told_what_to_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="runs on Linux only, and this is darwin"):
        async with LocalBackend(Settings(state_dir=str(tmp_path))):
            pass


async def test_backend_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not open"):
        await LocalBackend(Settings(state_dir=str(tmp_path))).runs()


async def test_unreadable_state_is_unknown_and_ends_nothing(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    await running(backend, ref)
    watch = backend.watch(ref)
    assert (await anext(watch)).phase is Phase.RUNNING
    with monkeypatch.context() as patch:

        def fail(path: Path) -> bool:
            raise OSError(24, "Too many open files", str(path))

        patch.setattr(store, "is_held", fail)
        assert (await anext(watch)).phase is Phase.UNKNOWN
    assert (await anext(watch)).phase is Phase.RUNNING


async def test_no_descriptors_left_are_no_answer_and_no_crash(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await backend.submit(backend.render(task("echo line; sleep 600"), context()))
    await running(backend, ref)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", no_descriptors)
        patch.setattr(Path, "read_bytes", no_descriptors)
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            await anext(backend.logs(ref, "all", LogCursor()))
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            await backend.find(context().identity)
    assert (await anext(backend.logs(ref, "all", LogCursor()))).text == "line"


def no_descriptors(path: Path, *_: object, **__: object) -> None:
    raise OSError(24, "Too many open files", str(path))


async def test_state_folder_that_this_user_may_not_make_is_a_mistake_with_a_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UsageError, match="SIFLOW_LOCAL_STATE_DIR"):
        await LocalBackend(Settings(state_dir=str(tmp_path / "state"))).__aenter__()


@pytest.mark.parametrize("folder", ["{there}/file/state", "~nobody-of-this-name/state"])
async def test_state_folder_that_can_never_be_there_is_a_mistake_with_a_mend(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"the state folder can't be made: .*SIFLOW_LOCAL_STATE_DIR"):
        await LocalBackend(Settings(state_dir=folder.format(there=tmp_path))).__aenter__()


async def test_full_disk_may_have_room_again_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(BackendUnavailable, match=r"No space left on device\. Free some space"):
        await LocalBackend(Settings(state_dir=str(tmp_path / "state"))).__aenter__()


async def test_wrong_capacity_file_makes_a_run_wait_and_not_fail(backend: LocalBackend, state_dir: Path) -> None:
    path = state_dir / "capacity.json"
    path.write_text("{cpu")
    ref = await backend.submit(backend.render(task("true"), context()))
    async for status in backend.watch(ref):
        if "capacity.json" in status.reason:
            break
    assert status.phase is Phase.QUEUED
    path.write_text(json.dumps({"cpu": 2}))
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED


async def test_doctor_names_a_folder_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "queue")  # as on a disk mounted read-only
    folder, _ = await check_local(Settings(state_dir=str(tmp_path)))
    assert (folder.ok, folder.found) == (False, f"{tmp_path}: queue can't be written")


async def test_what_is_no_run_among_the_runs_hides_none_of_them(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    (state_dir / "runs" / "notes.txt").write_text("a file of somebody's")
    (state_dir / "runs" / "folder").mkdir()
    broken = state_dir / "runs" / "broken"
    broken.mkdir()
    (broken / "state.json").write_text("{")
    assert [status.ref.name for status in await backend.runs()] == [ref.name]


async def test_training_goes_on_while_its_state_can_not_be_written(backend: LocalBackend, state_dir: Path) -> None:
    gates = [state_dir / f"go-{rank}" for rank in range(2)]
    for gate in gates:
        os.mkfifo(gate)
    command = f'read -r < "{state_dir}/go-$RANK"; echo $RANK'
    ref = await backend.submit(backend.render(task(command, workers=1), context()))
    await running(backend, ref)
    worker = next(process for process in processes_of(ref) if process.environ()["RANK"] == "1")
    file, aside = state_dir / "runs" / ref.name / "state.json", state_dir / "state.json"
    file.rename(aside)
    (file / "in-the-way").mkdir(parents=True)  # nothing can be renamed to it
    await asyncio.to_thread(gates[1].write_text, "go\n")
    await until(lambda: not psutil.pid_exists(worker.pid))
    (file / "in-the-way").rmdir()
    file.rmdir()
    aside.rename(file)
    await asyncio.to_thread(gates[0].write_text, "go\n")
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED


@pytest.mark.parametrize(("reserved", "phase"), [(True, Phase.SUCCEEDED), (False, Phase.LOST)])
async def test_end_of_a_run_is_told_also_when_it_has_filled_the_disk(
    backend: LocalBackend, state_dir: Path, monkeypatch: pytest.MonkeyPatch, reserved: bool, phase: Phase
) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    before = (await running(backend, ref)).phase
    await backend.stop(ref, by="the test")
    folder = RunFolder(state_dir / "runs" / ref.name)
    assert not folder.reserve.exists()
    state = read_state(folder)
    assert state is not None
    write_json(folder.state, state.model_copy(update={"phase": before}).model_dump(mode="json"))
    if reserved:
        folder.reserve.write_text("room")

    def write(path: Path, value: object) -> None:
        if reserved and not folder.reserve.exists():
            return write_json(path, value)
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(record, "write_json", write)
        with nullcontext() if reserved else pytest.raises(OSError, match="No space"):
            write_state(folder, state.model_copy(update={"phase": Phase.SUCCEEDED}))
    status = await backend.status(ref)
    assert (status.phase, "the disk was full" in status.reason) == (phase, not reserved)


async def test_metrics_link_names_the_port_of_the_form(backend: LocalBackend) -> None:
    form = task("sleep 600", monitoring=Monitoring(port=9191, path="/metrics"))
    ref = await backend.submit(backend.render(form, context()))
    assert (await running(backend, ref)).links == {"metrics": "http://127.0.0.1:9191/metrics"}


async def test_sigterm_to_the_supervisor_ends_the_run_as_lost(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("sleep 600", workers=1), context()))
    await running(backend, ref)
    supervisor_of(state_dir, ref).terminate()
    status = await end_of(backend, ref)
    assert status.phase is Phase.LOST
    assert "SIGTERM" in status.reason
    await until(lambda: processes_of(ref) == [])


async def test_a_thousand_looks_at_a_run_take_well_under_a_second(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("sleep 600", workers=3), context()))
    await running(backend, ref)
    started = time.process_time()
    for _ in range(1000):
        await backend.status(ref)
    assert time.process_time() - started < 1


async def test_supervision_costs_next_to_nothing_while_a_run_goes_on(backend: LocalBackend, state_dir: Path) -> None:
    command = "for i in $(seq 20); do (setsid true &); done; sleep 600"
    ref = await backend.submit(backend.render(task(command, workers=1), context()))
    await running(backend, ref)
    supervisor = supervisor_of(state_dir, ref)
    await until(lambda: not [child for child in supervisor.children() if child.status() == psutil.STATUS_ZOMBIE])
    before = sum(supervisor.cpu_times()[:2])
    await asyncio.sleep(3)
    assert sum(supervisor.cpu_times()[:2]) - before < 0.15
