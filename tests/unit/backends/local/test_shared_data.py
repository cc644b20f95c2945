"""Data on shared storage that a run asks to have removed: it goes after the last attempt, whatever the end, not before.

An attempt is told of here by any run: what decides is whether its supervisor lives, and that is the same for each kind.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.shared_data import finish, remember, remove_due, shared_folder
from siflow_provider.backends.local.store import StateDir
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.errors import AccessDenied
from siflow_provider.spec.resolve import Mount
from tests.unit.backends.local.following import end_of, running, supervisor_of, until
from tests.unit.backends.local.ray_tasks import ray_task
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs


@pytest.fixture
def state(backend: LocalBackend, state_dir: Path) -> StateDir:
    return StateDir(state_dir)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "team"


def fill(state: StateDir, base: Path, task_uuid: str) -> Path:
    """Make a run's data, to be removed at the run's end."""
    folder = shared_folder(base, task_uuid)
    folder.mkdir(parents=True)
    (folder / "checkpoint").touch()
    remember(state, task_uuid, base)
    return folder


@pytest.fixture
def identity() -> Identity:
    return Identity.random()


@pytest.fixture
def folder(state: StateDir, base: Path, identity: Identity) -> Path:
    """Return the data of the test's own run."""
    return fill(state, base, identity.task_uuid)


def is_there(folder: Path) -> bool:
    return folder.exists()


async def submit(backend: LocalBackend, command: str, identity: Identity) -> JobRef:
    return await backend.submit(backend.render(task(command), context(identity)))


async def test_data_of_an_attempt_that_is_still_alive_goes_when_its_last_process_has_ended(
    backend: LocalBackend, identity: Identity, folder: Path
) -> None:
    ref = await submit(backend, "sleep 600", identity)
    await running(backend, ref)
    await backend.finish(ref)
    assert (folder / "checkpoint").exists()
    await backend.stop(ref, by="ada")
    await until(lambda: not folder.exists())


async def test_data_goes_also_when_the_supervisor_is_killed(
    backend: LocalBackend, state: StateDir, identity: Identity, folder: Path
) -> None:
    ref = await submit(backend, "sleep 600", identity)
    await running(backend, ref)
    await backend.finish(ref)
    supervisor_of(state.path, ref).kill()
    await until(lambda: not folder.exists())


@pytest.mark.parametrize("command", ["true", "exit 1"])
async def test_data_stays_after_an_end_until_somebody_says_that_it_was_the_last(
    backend: LocalBackend, identity: Identity, folder: Path, command: str
) -> None:
    ref = await submit(backend, command, identity)
    await end_of(backend, ref)
    await backend.stop(ref, by="ada")  # until its supervisor is gone
    assert (folder / "checkpoint").exists()
    await backend.finish(ref)
    await backend.finish(ref)
    assert not is_there(folder)


async def test_data_of_a_deleted_attempt_stays_for_the_next_one_and_goes_after_that(
    backend: LocalBackend, identity: Identity, folder: Path
) -> None:
    first = await submit(backend, "sleep 600", identity)
    await backend.delete(first)
    assert (folder / "checkpoint").exists()
    second = await submit(backend, "true", identity.for_attempt(2))
    await end_of(backend, second)
    await backend.delete(second)
    assert (folder / "checkpoint").exists()
    await backend.finish(second)
    assert not is_there(folder)


async def test_word_about_an_attempt_that_is_not_the_last_takes_nothing_from_the_last(
    backend: LocalBackend, identity: Identity, folder: Path
) -> None:
    first = await submit(backend, "exit 1", identity)
    await end_of(backend, first)
    second = await submit(backend, "exit 1", identity.for_attempt(2))
    await backend.finish(first)
    await end_of(backend, second)
    await backend.stop(second, by="ada")
    await backend.finish(first)
    assert (folder / "checkpoint").exists()


async def test_data_stays_while_an_earlier_attempt_keeps_its_cluster(
    backend: LocalBackend, identity: Identity, folder: Path
) -> None:
    kept = await submit(backend, "sleep 600", identity)
    last = await submit(backend, "true", identity.for_attempt(2))
    await end_of(backend, last)
    await backend.finish(last)
    assert (folder / "checkpoint").exists()
    await backend.stop(kept, by="ada")
    await until(lambda: not folder.exists())


async def test_what_a_reboot_left_goes_at_the_end_of_another_run(
    backend: LocalBackend, state: StateDir, base: Path
) -> None:
    folder = fill(state, base, "a-run-of-yesterday")
    await submit(backend, "true", Identity.random())
    state.clean_up("a-run-of-yesterday").write_text(f'{{"base": "{base}", "due": true}}')
    await end_of(backend, await submit(backend, "true", Identity.random()))
    await until(lambda: not folder.exists())


def test_nothing_goes_but_the_run_s_own_folder(state: StateDir, base: Path) -> None:
    other, own = fill(state, base, "other"), fill(state, base, "own")
    (own / "out").symlink_to(base)
    finish(state, "own")
    finish(state, "unheard-of")
    remove_due(state)
    assert not own.exists()
    assert (other / "checkpoint").exists()


def test_link_in_the_folder_s_place_goes_and_what_it_leads_to_stays(state: StateDir, base: Path) -> None:
    own = fill(state, base, "own")
    shutil.rmtree(own)
    precious = base / "precious"
    precious.mkdir()
    own.symlink_to(precious)
    finish(state, "own")
    assert not own.is_symlink()
    assert precious.is_dir()


async def test_data_that_can_not_be_removed_is_told_and_tried_again(
    backend: LocalBackend,
    state: StateDir,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = Identity.random()
    data = fill(state, base, own.task_uuid)
    ref = await submit(backend, "true", own)
    await end_of(backend, ref)
    await backend.stop(ref, by="ada")

    def refuse(path: Path, *_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        with pytest.raises(AccessDenied, match=str(data)):
            await backend.finish(ref)
        remove_due(state)
        assert str(data) in capsys.readouterr().err
    remove_due(state)
    assert not data.exists()


async def test_ray_job_in_the_queue_that_is_given_up_for_another_instance_loses_nothing(
    backend: LocalBackend, state: StateDir, base: Path
) -> None:
    (state.path / "capacity.json").write_text('{"cpu": 0.5}')  # so that it waits, and no cluster is started
    mount = Mount("shared_storage", "team", "/tmp/ray", local=str(base), sub_path="ray")
    shared = ray_task("true", mounts=(mount,), ray={"shared_storage": {"volume": "team", "clean_up": True}})
    identity = Identity.random()
    folder = shared_folder(base / "ray", identity.task_uuid)
    folder.mkdir(parents=True)
    refs = []
    for attempt in (1, 2):
        asked = RenderContext(identity=identity.for_attempt(attempt), user_name="ada")
        refs.append(ref := await backend.submit(backend.render(shared, asked)))
        assert (await backend.status(ref)).phase is Phase.QUEUED
        await backend.delete(ref)
        assert folder.is_dir()
    await backend.finish(refs[-1])
    assert not folder.exists()
    assert (base / "ray").is_dir()
