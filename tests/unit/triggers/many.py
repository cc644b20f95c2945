"""Many runs on the embedded backend without their processes: files as a supervisor writes them."""

from __future__ import annotations

import os
import zlib
from datetime import UTC, datetime
from pathlib import Path

from siflow_provider.backends.local.lock import take
from siflow_provider.backends.local.record import Replica, RunState, Submission
from siflow_provider.backends.local.store import RunFolder, StateDir, boot_id, write_json
from siflow_provider.core.status import JobRef, Phase

BEGUN = datetime.now(UTC)


class Machine:
    """Runs that all run until somebody ends them. One lock stands for the supervisors of all.

    Args:
        state_dir: of the backend.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state = StateDir.open(str(state_dir))
        self._lock = state_dir / "supervisors.lock"
        self._held = take(self._lock)

    def begin(self, name: str) -> JobRef:
        """Make a run that runs."""
        folder = self._state.run(name)
        folder.logs.mkdir(parents=True)
        os.link(self._lock, folder.lock)
        ref = JobRef(backend="local", kind="PyTorchJob", name=name, uid=f"uid-{name}", task_uuid=f"uuid-{name}")
        submission = Submission(
            ref=ref, labels={}, document={"replicas": [{"role": "master", "count": 1}]},
            directory="/", submitted_at=BEGUN, boot_id=boot_id(),
        )  # fmt: skip
        write_json(folder.manifest, submission.model_dump(mode="json"))
        self._write(folder, ref, Phase.RUNNING)
        return ref

    def log(self, ref: JobRef) -> Path:
        """Return the master's log file."""
        return self._state.run(ref.name).logs / "master-0.log"

    def checksum(self, ref: JobRef) -> int:
        """Return the CRC-32 of the master's log."""
        total = 0
        with self.log(ref).open("rb") as file:
            while chunk := file.read(2**20):
                total = zlib.crc32(chunk, total)
        return total

    def end(self, ref: JobRef) -> None:
        """Let the run end well."""
        self._write(self._state.run(ref.name), ref, Phase.SUCCEEDED)

    def close(self) -> None:
        """Let the supervisors end."""
        os.close(self._held)

    @staticmethod
    def _write(folder: RunFolder, ref: JobRef, phase: Phase) -> None:
        state = RunState(
            ref=ref, phase=phase, replicas=(Replica(name="master-0", role="master", phase=phase, rank=0),),
            submitted_at=BEGUN, admitted_at=BEGUN, running_at=BEGUN,
            ended_at=BEGUN if phase.terminal else None, boot_id=boot_id(),
        )  # fmt: skip
        write_json(folder.state, state.model_dump(mode="json"))
