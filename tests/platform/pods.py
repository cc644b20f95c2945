"""A pod of the fake platform: one bash process in a session of its own, and its log."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

GRACE_SECONDS = 2.0
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def base_env() -> dict[str, str]:
    """Return what a container's image gives: this interpreter's programs on the path, and nothing of its maker."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    env["PYTHONUNBUFFERED"] = "1"
    return env


@dataclass
class Pod:
    """One pod; `argv` is run when it starts."""

    name: str
    log: Path
    status: str = "Pending"
    status_msg: str = ""
    exit_code: int | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    process: asyncio.subprocess.Process | None = None

    def turn(self, status: str, message: str = "") -> None:
        """Change its status."""
        self.status, self.status_msg, self.updated = status, message, datetime.now(UTC)

    async def start(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        """Start its process."""
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *argv,
                env=env,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        self.turn("Running")

    async def wait(self) -> int:
        """Wait for its main process, end whatever that left behind, and return the exit code as a shell tells it."""
        assert self.process is not None
        code = await self.process.wait()
        kill_session(self.process.pid)
        self.exit_code = code if code >= 0 else 128 - code
        self.turn("Succeeded" if self.exit_code == 0 else "Failed")
        return self.exit_code

    async def end(self) -> None:
        """End it as a kubelet does: ask the first process, then kill all."""
        if self.process is None or self.process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self.process.wait()
        except TimeoutError:
            kill_session(self.process.pid)

    def lines(self) -> list[str]:
        """Return the complete lines so far; of an ended pod the unfinished last one as well."""
        try:
            raw = self.log.read_bytes()
        except FileNotFoundError:
            return []
        *whole, rest = raw.split(b"\n")
        if rest and self.exit_code is not None:
            whole.append(rest)
        return [line.decode("utf-8", "replace") for line in whole]


def kill_session(leader: int) -> None:
    """Kill every process of a session: what a container's end does."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)
