"""Volumes, datasets and models: at their mount paths for the run alone, or named to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from siflow_provider.backends.local import mounts, namespace
from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.status import FailureClass, Phase
from siflow_provider.spec.resolve import Mount
from tests.unit.backends.local.following import end_of, lines_of
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs


def _volume(local: Path, path: str, **fields: object) -> Mount:
    return Mount("volume", "team-data", path, local=str(local), **fields)  # type: ignore[arg-type]


def _there(path: str) -> bool:
    return os.path.lexists(path)


async def test_folders_stand_at_their_mount_paths_and_the_machine_is_untouched(
    backend: LocalBackend, tmp_path: Path
) -> None:
    data, model = tmp_path / "data", tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("w")
    command = (
        "cat /mnt/llama/weights; echo written > /volume/data/out && cat /volume/data/out; "
        "echo x > /mnt/llama/new || echo refused; ls / | grep -c '^usr$'; echo $SIFLOW_MOUNT_TEAM_DATA; pwd"
    )
    form = task(
        command,
        workers=1,
        mounts=(
            _volume(data, "/volume/data", sub_path="users/ada"),
            Mount("model", "llama", "/mnt/llama", local=str(model), read_only=True),
        ),
    )
    assert backend.unsupported(form) == []
    ref = await backend.submit(backend.render(form, context()))
    status = await end_of(backend, ref)
    lines = await lines_of(backend, ref)
    assert status.phase is Phase.SUCCEEDED, (status, lines)
    assert lines[:2] == ["wwritten", "bash: line 1: /mnt/llama/new: Read-only file system"]
    assert lines[2:] == ["refused", "1", "/volume/data", str(Path.cwd())]
    assert (data / "users/ada/out").read_text() == "written\n"
    assert not _there("/volume")
    assert not _there("/mnt/llama")
    assert status.events[0].text.startswith("mounted for this run alone: /volume/data is ")


async def test_mount_inside_another_and_over_an_existing_folder(backend: LocalBackend, tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    there = tmp_path / "there"
    there.mkdir()
    (there / "hidden-by-the-mount").touch()
    form = task(
        f"echo 1 > /volume/a/b/one; echo 2 > /volume/a/two; echo 3 > {there}/three; ls {there}",
        mounts=(
            Mount("volume", "inner", "/volume/a/b", local=str(inner)),
            Mount("volume", "outer", "/volume/a", local=str(outer)),
            Mount("volume", "third", str(there), local=str(tmp_path / "third")),
        ),
    )
    ref = await backend.submit(backend.render(form, context()))
    assert await lines_of(backend, ref) == ["three"]
    assert [path.name for path in inner.iterdir()] == ["one"]
    assert sorted(path.name for path in outer.iterdir()) == ["b", "two"]
    assert [path.name for path in there.iterdir()] == ["hidden-by-the-mount"]


def test_without_the_right_to_mount_the_folders_are_named_to_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "refuses.py"
    broken.write_text(
        "import sys; sys.exit('siflow: the task\\'s folders can\\'t be mounted: Operation not permitted')"
    )
    monkeypatch.setattr(namespace, "__file__", str(broken))
    view = mounts.mount_view(
        [{"source": "volume", "name": "team-data", "mount_path": "/volume/data", "local": str(tmp_path / "data"),
          "sub_path": "", "read_only": False}],
        tmp_path,
        tmp_path,
    )  # fmt: skip
    assert view.prefix == ()
    assert json.loads(view.env["SIFLOW_MOUNTS"]) == {"/volume/data": str(tmp_path / "data")}
    assert view.env["SIFLOW_MOUNT_TEAM_DATA"] == str(tmp_path / "data")
    assert "Operation not permitted" in view.notes[0]
    assert "SIFLOW_MOUNTS" in view.notes[0]


async def test_mount_that_would_hide_the_runs_own_files_is_named_and_not_made(
    backend: LocalBackend, tmp_path: Path
) -> None:
    form = task('echo "$SIFLOW_MOUNT_TEAM_DATA"', mounts=(_volume(tmp_path / "data", str(tmp_path)),))
    ref = await backend.submit(backend.render(form, context()))
    assert await lines_of(backend, ref) == [str(tmp_path / "data")]
    assert "would hide the run's own files" in (await end_of(backend, ref)).events[0].text


async def test_mount_that_would_hide_the_folder_where_the_command_starts_is_named_and_not_made(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "project" / "src"
    start.mkdir(parents=True)
    monkeypatch.chdir(start)
    form = task("pwd; echo $SIFLOW_MOUNT_TEAM_DATA", mounts=(_volume(tmp_path / "data", str(tmp_path / "project")),))
    ref = await backend.submit(backend.render(form, context()))
    status = await end_of(backend, ref)
    assert (status.phase, await lines_of(backend, ref)) == (Phase.SUCCEEDED, [str(start), str(tmp_path / "data")])
    assert "a mount hides the folder where the command starts" in status.events[0].text


async def test_missing_dataset_folder_is_told_before_and_fails_as_data_path_after(
    backend: LocalBackend, tmp_path: Path
) -> None:
    folder = tmp_path / "digits"
    form = task("true", mounts=(Mount("dataset", "digits", "/mnt/digits", local=str(folder), read_only=True),))
    assert [(reason.path, reason.code) for reason in backend.unsupported(form)] == [("datasets[0]", "FolderMissing")]
    folder.mkdir()
    manifest = backend.render(form, context())
    folder.rmdir()
    status = await end_of(backend, await backend.submit(manifest))
    assert status.failure is not None
    assert status.failure.category is FailureClass.DATA_PATH
    assert str(folder) in status.failure.summary
