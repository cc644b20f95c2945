"""One run for one identity, whoever submits it and however often; and no hidden value anywhere but in the replicas."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import Phase
from siflow_provider.errors import BackendError, NameTaken, UnsupportedError, UsageError
from siflow_provider.spec.compute import InPlaceInstance, NodeRule, OnDemand, Reserved
from siflow_provider.spec.policy import KubernetesOptions, Monitoring
from tests.unit.backends.local.following import end_of, lines_of, processes_of, running
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs

IDENTITY = Identity(dag_id="d", task_id="t", run_id="r")


def _files_with(text: bytes, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


async def test_eight_submits_at_once_give_one_run(backend: LocalBackend, state_dir: Path) -> None:
    manifest = backend.render(task("sleep 0.2; echo once"), context(IDENTITY))
    refs = await asyncio.gather(*(backend.submit(manifest) for _ in range(8)))
    assert len(set(refs)) == 1
    assert len(list((state_dir / "runs").iterdir())) == 1
    assert list((state_dir / "new").iterdir()) == []
    assert await lines_of(backend, refs[0]) == ["once"]


async def test_run_is_found_by_its_identity_and_its_newest_attempt(backend: LocalBackend) -> None:
    assert await backend.find(IDENTITY) is None
    assert await backend.find_latest(IDENTITY) is None
    first = await backend.submit(backend.render(task("true"), context(IDENTITY)))
    second = await backend.submit(backend.render(task("true"), context(IDENTITY.for_attempt(2))))
    assert await backend.find(IDENTITY) == first
    assert await backend.find_latest(IDENTITY) == second
    await end_of(backend, second)
    await backend.delete(second)
    assert await backend.find_latest(IDENTITY) == first


async def test_same_identity_under_another_prefix_is_the_same_run(backend: LocalBackend, state_dir: Path) -> None:
    first = await backend.submit(backend.render(task("true", name_prefix="one"), context(IDENTITY)))
    assert await backend.submit(backend.render(task("true", name_prefix="two"), context(IDENTITY))) == first
    await end_of(backend, first)
    (state_dir / "runs" / first.name).rename(state_dir / "vanished")
    second = await backend.submit(backend.render(task("true", name_prefix="two"), context(IDENTITY)))
    assert second.name.startswith("two-")
    assert await backend.find(IDENTITY) == second


async def test_name_of_somebody_else_is_refused(backend: LocalBackend, state_dir: Path) -> None:
    manifest = backend.render(task("true"), context(IDENTITY))
    ref = await backend.submit(manifest)
    path = state_dir / "runs" / ref.name / "manifest.json"
    path.write_text(path.read_text().replace(IDENTITY.task_uuid, "00000000-0000-0000-0000-000000000000"))
    with pytest.raises(NameTaken, match="somebody else"):
        await backend.submit(manifest)


async def test_hidden_value_reaches_the_replica_and_no_file_or_argv(backend: LocalBackend, state_dir: Path) -> None:
    canary = "canary-9d7f2c"
    form = task('test -n "$TOKEN" && echo "${#TOKEN}"; sleep 600', hidden={"TOKEN": canary})
    manifest = backend.render(form, context())
    assert canary not in repr(manifest)
    ref = await backend.submit(manifest)
    await running(backend, ref)
    assert _files_with(canary.encode(), state_dir) == []
    assert [process for process in psutil.process_iter(["cmdline"]) if canary in str(process.info["cmdline"])] == []
    assert processes_of(ref)[0].environ()["TOKEN"] == canary
    assert canary not in repr(await backend.status(ref))


async def test_render_is_the_same_each_time_and_names_hidden_values_only(backend: LocalBackend) -> None:
    form = task("true", hidden={"TOKEN": "canary-1"}, env={"LR": "0.1"})
    first, second = (backend.render(form, context(IDENTITY)) for _ in range(2))
    assert first.documents == second.documents
    assert first.documents[0]["hidden_env"] == ["TOKEN"]
    assert first.documents[0]["env"]["LR"] == "0.1"


async def test_command_reaches_bash_byte_for_byte(backend: LocalBackend) -> None:
    command = "echo 'a  \"b\"' $((1+1)) \"$WORD\"\nprintf '%s\\n' 'ünïcode 🚀' `echo tick` \\\\x\n"
    ref = await backend.submit(backend.render(task(command, env={"WORD": "$HOME `x`"}), context()))
    assert await lines_of(backend, ref) == ['a  "b" 2 $HOME `x`', "ünïcode 🚀", "tick", "\\x"]


async def test_replica_sees_the_environment_of_the_form(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SECRET", "no business of the task")
    names = [
        "X_USER_NAME",
        "TASK_UUID",
        "SIFLOW_ATTEMPT",
        "AIRFLOW_CTX_DAG_ID",
        "MASTER_ADDR",
        "WORLD_SIZE",
        "RANK",
        "GLOO_SOCKET_IFNAME",
        "OMP_NUM_THREADS",
        "PYTHONUNBUFFERED",
    ]
    command = "; ".join([*(f'echo "{name}=${name}"' for name in names), "env | grep -c AIRFLOW_CONN", "which python"])
    ref = await backend.submit(backend.render(task(command, cpu="1900m"), context(IDENTITY)))
    assert await lines_of(backend, ref) == [
        "X_USER_NAME=ada",
        f"TASK_UUID={IDENTITY.task_uuid}",
        "SIFLOW_ATTEMPT=1",
        "AIRFLOW_CTX_DAG_ID=d",
        "MASTER_ADDR=127.0.0.1",
        "WORLD_SIZE=1",
        "RANK=0",
        "GLOO_SOCKET_IFNAME=lo",
        "OMP_NUM_THREADS=1",
        "PYTHONUNBUFFERED=1",
        "0",
        str(Path(sys.executable).with_name("python")),
    ]


async def test_replica_that_cannot_start_is_told_with_the_missing_program(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("true", env={"PATH": "/nowhere"}), context()))
    status = await end_of(backend, ref)
    assert status.phase is Phase.FAILED
    assert status.failure is not None
    assert "master-0 could not be started" in status.failure.summary


async def test_missing_binary_ends_with_127_and_its_line(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("no-such-program --x"), context()))
    status = await end_of(backend, ref)
    assert status.failure is not None
    assert status.failure.exit_code == 127
    assert "no-such-program" in status.failure.last_lines[-1]


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("env.LONG", {"env": {"LONG": "x" * 131_072}}),
        ("env.LONG", {"hidden": {"LONG": "x" * 131_072}}),
        ("env", {"env": {f"MUCH_{number}": "x" * 100_000 for number in range(100)}}),
    ],
)
async def test_environment_that_linux_hands_to_no_process_is_refused_by_name(
    backend: LocalBackend, path: str, given: dict[str, Any]
) -> None:
    reasons = backend.unsupported(task("true", **given))
    assert [(reason.path, reason.code) for reason in reasons] == [(path, "TooLong")]


async def test_every_unsupported_field_is_named_with_its_reason(backend: LocalBackend) -> None:
    instance = InPlaceInstance(cpu="1", memory="1Gi")
    form = task(
        "x" * 200_000,
        compute=OnDemand(type="on_demand", instances=(instance,), nodes=NodeRule(only=("n1",)), guarantee=True),
        kubernetes=KubernetesOptions(service_account="trainer", patch={"spec": {}}),
    )
    paths = [reason.path for reason in backend.unsupported(form)]
    assert paths == [
        "compute.nodes",
        "compute.guarantee",
        "kubernetes.patch",
        "kubernetes.service_account",
        "command",
    ]
    with pytest.raises(UnsupportedError, match="service account"):
        backend.render(form, context())


async def test_ignored_image_is_told_in_exactly_one_line(backend: LocalBackend) -> None:
    assert [line for line in backend.warnings(task("true")) if line.startswith("image")] == [
        "image: registry.example/ai/pytorch:1 is ignored; the command runs in this machine's own Python environment."
    ]


async def test_each_field_that_is_honoured_only_in_part_has_its_line(backend: LocalBackend) -> None:
    form = task(
        "true",
        workers=1,
        region="cn-east",
        image_pull_retries=3,
        shm_size="1Gi",
        ssh=True,
        monitoring=Monitoring(port=9090),
        compute=Reserved(
            type="reserved", pool="shared", instance=InPlaceInstance(cpu="1", memory="1Gi"), accept_idle=True
        ),
    )
    assert [line.split(":")[0] for line in backend.warnings(form)] == [
        "image",
        "region, cluster",
        "image_pull_retries",
        "shm_size",
        "compute.accept_idle",
        "ssh",
        "monitoring.port",
    ]


async def test_unknown_replica_name_is_answered_with_those_there_are(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("true", workers=1), context()))
    with pytest.raises(UsageError, match=r"no replica 'worker-7'.*master-0, worker-0"):
        await lines_of(backend, ref, "worker-7")


async def test_results_file_becomes_the_marked_line_of_the_master(backend: LocalBackend) -> None:
    command = """printf 'no newline'; echo '{"accuracy": 0.5}' > "$SIFLOW_RESULTS" """
    ref = await backend.submit(backend.render(task(command), context()))
    assert await lines_of(backend, ref) == ["no newline", '::siflow-result:: {"accuracy": 0.5}']


async def test_hostfiles_list_every_replica_in_order(backend: LocalBackend) -> None:
    command = 'cat "$SIFLOW_HOSTFILE" "$SIFLOW_HOSTFILE.hostname"'
    ref = await backend.submit(backend.render(task(command, workers=1, ssh=True), context()))
    assert await lines_of(backend, ref) == ["127.0.0.1 slots=1"] * 2 + ["127.0.0.1"] * 2


async def test_deleted_run_is_gone_and_its_last_state_is_still_told(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context(IDENTITY)))
    await backend.delete(ref)
    await backend.delete(ref)
    assert list((state_dir / "runs").iterdir()) == []
    assert (await backend.status(ref)).phase is Phase.STOPPED
    assert await backend.find(IDENTITY) is None
    again = await backend.submit(backend.render(task("true"), context(IDENTITY)))
    assert again.name == ref.name
    assert again.uid != ref.uid
    assert (await backend.status(ref)).phase is Phase.STOPPED


async def test_vanished_run_is_lost(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    (state_dir / "runs" / ref.name).rename(state_dir / "elsewhere")
    gone = await end_of(backend, ref)
    assert (gone.phase, gone.submitted_at, gone.queued_seconds) == (Phase.LOST, None, 0.0)


async def test_run_of_a_newer_version_is_read_as_far_as_this_one_can(backend: LocalBackend, state_dir: Path) -> None:
    ref = await backend.submit(backend.render(task("true"), context(IDENTITY)))
    await end_of(backend, ref)
    for name in ("manifest.json", "state.json"):
        file = state_dir / "runs" / ref.name / name
        file.write_text(json.dumps(json.loads(file.read_text()) | {"added_later": 1}))
    assert await backend.find(IDENTITY) == ref
    assert (await backend.status(ref)).phase is Phase.SUCCEEDED


async def test_run_starts_in_a_folder_whose_name_is_no_utf8(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    monkeypatch.chdir(folder)
    ref = await backend.submit(backend.render(task("pwd > here; test -e here"), context()))
    assert (await end_of(backend, ref)).phase is Phase.SUCCEEDED
    assert os.fsencode(folder) in (folder / "here").read_bytes()


async def test_submission_that_fails_leaves_no_hidden_value_behind(
    backend: LocalBackend, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    manifest = backend.render(task("true", hidden={"TOKEN": "canary-4711"}), context())
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        with pytest.raises(BackendError):
            await backend.submit(manifest)
    assert list((state_dir / "new").iterdir()) == []


def test_importing_the_supervisor_loads_no_airflow_and_no_pydantic() -> None:
    code = (
        "import sys, siflow_provider.backends.local.supervisor\n"
        "print(sorted({'airflow', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
