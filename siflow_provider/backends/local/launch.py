"""Starting a run: its folder is made aside, then a detached supervisor publishes it. No half-made run is ever seen.

The starter takes the lock and hands its descriptor down; the supervisor renames the folder into `runs/`, which the
kernel does once and for one of several starters. A starter that is killed before that leaves nothing that counts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from siflow_provider.backends.local.capacity import Amounts
from siflow_provider.backends.local.grace import grace_seconds
from siflow_provider.backends.local.ledger import QUEUE, Entry
from siflow_provider.backends.local.lock import take
from siflow_provider.backends.local.ray_job import find_shared_base
from siflow_provider.backends.local.record import RESERVE_BYTES, RunState, Submission, read_submission, write_state
from siflow_provider.backends.local.shared_data import remember
from siflow_provider.backends.local.store import RunFolder, StateDir, boot_id, write_json
from siflow_provider.backends.local.supervisor import NAME_EXISTS, PUBLISHED, SUPERVISOR_NAMES
from siflow_provider.core.protocol import Manifest
from siflow_provider.core.status import JobRef, Phase, QueuePlace
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendError, NameTaken

__all__ = ["find_ref", "launch"]

_START_SECONDS = 120.0
_KEPT_NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR",
        "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    }
)  # fmt: skip
_KEPT_PREFIXES = ("LC_", "XDG_", "CUDA_", "NVIDIA_", "CONDA_", "PIP_", "UV_")


def find_ref(state: StateDir, labels: dict[str, str], name: str) -> JobRef | None:
    """Return the run called `name` if its labels are these; None when there is none of that name.

    Raises:
        NameTaken: the name belongs to another run.
    """
    there = read_submission(state.run(name))
    if there is None:
        return None
    if there.labels != labels:
        raise NameTaken(
            f"a run called {name!r} exists in {state.path} and is somebody else's.",
            hint="Give the task another name_prefix, or delete that run.",
        )
    return there.ref


def launch(state: StateDir, manifest: Manifest) -> JobRef:
    """Start the run, or return the one that exists for the same identity. Blocks for about a tenth of a second.

    Raises:
        NameTaken: the name belongs to another run.
        BackendError: the supervisor could not be started; its own words are in `detail`.
    """
    identity = manifest.context.identity
    labels = identity.labels()
    link = state.by_run(identity.task_uuid) / str(identity.attempt)
    # by its labels first: another name_prefix makes another name, and no second run
    if (existing := _linked(link, labels) or find_ref(state, labels, manifest.name)) is not None:
        return existing
    grace_seconds()  # a wrong one is told to whoever submits, and not to the supervisor's log
    state.sweep()
    ref = _new_ref(manifest)
    folder = RunFolder(state.path / "new" / ref.uid)
    folder.path.mkdir(mode=0o700)
    lock = take(folder.lock)
    try:
        _write(folder, manifest, ref, labels)
        _note_clean_up(state, manifest)
        _link(link, manifest.name)
        code = _start_supervisor(state, folder, manifest.name, lock)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # hidden values among it
        raise
    finally:
        os.close(lock)
    if code == PUBLISHED:
        return ref
    detail = folder.supervisor_log.read_text(errors="replace")[-2000:] if folder.supervisor_log.exists() else ""
    shutil.rmtree(folder.path, ignore_errors=True)
    if code == NAME_EXISTS and (existing := find_ref(state, labels, manifest.name)) is not None:
        return existing
    link.unlink(missing_ok=True)
    raise _not_started(state, manifest.name, code, detail)


def _not_started(state: StateDir, name: str, code: int, detail: str) -> BackendError:
    return BackendError(
        f"the supervisor of {name!r} could not be started (exit code {code}).",
        hint=f"Look whether {sys.executable} works and {state.path} can be written.",
        detail=detail,
    )


def _new_ref(manifest: Manifest) -> JobRef:
    identity = manifest.context.identity
    return JobRef(
        backend="local",
        kind=manifest.task.task.kind,
        name=manifest.name,
        uid=str(uuid.uuid4()),
        task_uuid=identity.task_uuid,
        attempt=identity.attempt,
    )


def _write(folder: RunFolder, manifest: Manifest, ref: JobRef, labels: dict[str, str]) -> None:
    now = datetime.now(UTC)
    document, form = dict(manifest.documents[0]), manifest.task.task
    hidden = {name: value.reveal() for name, value in manifest.hidden.items()}
    submission = Submission(
        ref=ref, labels=labels, document=document, directory=str(_directory()), submitted_at=now, boot_id=boot_id()
    )
    state = RunState(
        ref=ref,
        phase=Phase.QUEUED,
        reason="submitted",
        queue=QueuePlace(queue=QUEUE, reason="submitted"),
        submitted_at=now,
        gpus=float(Amounts.of(document["need"]).gpus),
        owner=manifest.context.user_name,
        private=not form.visible_in_group,
        timezone=form.timezone or "UTC",
        veil=Veil.of(hidden.values()),
        moves=manifest.context.moves,
        origin=manifest.context.origin,
        boot_id=submission.boot_id,
    )
    entry = Entry(ref.name, ref.uid, document["priority"], now.timestamp(), Amounts.of(document["need"]))
    folder.logs.mkdir()
    folder.work.mkdir()
    write_json(folder.manifest, submission.model_dump(mode="json"))
    write_state(folder, state)
    folder.reserve.write_bytes(bytes(RESERVE_BYTES))
    write_json(folder.path / "queue.json", entry.wire())
    write_json(folder.hidden, hidden, mode=0o600)


def _note_clean_up(state: StateDir, manifest: Manifest) -> None:
    document = manifest.documents[0]
    base = find_shared_base(document, state)
    if base is not None and document["ray"]["shared_storage"]["clean_up"]:
        remember(state, manifest.context.identity.task_uuid, base)


def _directory() -> Path:
    """Return where the replicas start: our own working directory, else (it has been removed) the user's home."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path.home()


def _linked(link: Path, labels: dict[str, str]) -> JobRef | None:
    there = read_submission(RunFolder(link))
    return there.ref if there is not None and there.labels == labels else None


def _link(link: Path, name: str) -> None:
    """Make `link` lead to the run called `name`; what it led to before is gone."""
    target = Path("..") / ".." / "runs" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)


def _start_supervisor(state: StateDir, folder: RunFolder, name: str, lock: int) -> int:
    """Run the supervisor until it has detached itself, and return what it said about publishing."""
    argv = [
        sys.executable,
        "-P",
        "-m",
        "siflow_provider.backends.local.supervisor",
        str(state.path),
        str(folder.path),
        name,
        str(lock),
    ]
    with folder.supervisor_log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock,),
        )
    try:
        return process.wait(_START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _environment() -> dict[str, str]:
    """Return the part of our environment that a job may see: what finds programs and networks, and nothing of Airflow.

    An Airflow worker's environment holds connections and keys, which are no business of the training code.
    """
    env = {name: value for name, value in os.environ.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    # the supervisor must find what its starter found, whatever put it on the path; replicas get the old value back
    env["SIFLOW_STARTER_PYTHONPATH"] = env.get("PYTHONPATH", "")
    for name in SUPERVISOR_NAMES & os.environ.keys():
        env[name] = os.environ[name]
    env["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    return env
