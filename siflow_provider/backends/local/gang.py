"""A PyTorchJob on this machine: one process a replica, all at once, and all over when one fails.

Each replica runs `bash -c COMMAND`, the command untouched, with the variables of torch's own rendezvous. The job
succeeds when every replica exits with 0; one that ends well early does not end the others.
"""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass, replace

from siflow_provider.backends.local.processes import exit_code
from siflow_provider.backends.local.runner import Ending, Launch, RunnerState
from siflow_provider.core.status import Phase, ReplicaStatus

__all__ = ["Gang"]


@dataclass(slots=True)
class _Member:
    status: ReplicaStatus
    cores: float
    gpus: tuple[int, ...]
    process: subprocess.Popen[bytes] | None = None


class Gang:
    """The runner of a PyTorchJob."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._members = _members(launch)
        self._ending: Ending | None = None

    def start(self) -> None:
        """Start every replica; the first that can't be started ends the gang."""
        port = _free_port()
        for member in self._members:
            status = member.status
            try:
                member.process = self._launch.processes.spawn(
                    [*self._launch.prefix, "bash", "-c", str(self._launch.document["command"])],
                    env=self._env(member, port),
                    directory=self._launch.directory,
                    log=self._launch.log(status.name),
                )
            except OSError as error:
                self._fail(member, None, f"{status.name} could not be started: {error.strerror} ({error.filename})")
                return
            member.status = replace(status, phase=Phase.RUNNING)

    def poll(self) -> RunnerState:
        """Look at every replica; the first failure is the gang's."""
        for member in sorted(self._ended(), key=self._last_output):
            self._look(member)
        if self._ending is None and all(member.status.phase is Phase.SUCCEEDED for member in self._members):
            self._ending = Ending(succeeded=True)
        return RunnerState(
            replicas=tuple(member.status for member in self._members),
            pids={member.status.name: member.process.pid for member in self._members if member.process is not None},
            ending=self._ending,
            finished=self._ending is not None,
        )

    def stop(self, grace_seconds: float) -> None:
        """End every replica and say of each that still ran that it was ended."""
        self._launch.processes.end_all(grace_seconds)
        for member in self._members:
            if not member.status.phase.terminal:
                code = exit_code(member.process.returncode or 0) if member.process is not None else None
                member.status = replace(member.status, phase=Phase.STOPPED, exit_code=code, reason=self._why())

    def _why(self) -> str:
        if self._ending is not None and not self._ending.succeeded:
            return f"ended because {self._ending.replica} failed"
        return "ended by the stop"

    def _ended(self) -> list[_Member]:
        return [
            member
            for member in self._members
            if member.status.phase is Phase.RUNNING and member.process is not None and member.process.poll() is not None
        ]

    def _last_output(self, member: _Member) -> float:
        # of several that end at once the one that wrote its last words first failed first: the others died of it
        return self._launch.log(member.status.name).stat().st_mtime_ns

    def _look(self, member: _Member) -> None:
        code = exit_code(member.process.returncode) if member.process is not None else 0
        if code == 0:
            member.status = replace(member.status, phase=Phase.SUCCEEDED, exit_code=0)
        else:
            self._fail(member, code, "")

    def _fail(self, member: _Member, code: int | None, summary: str) -> None:
        member.status = replace(member.status, phase=Phase.FAILED, exit_code=code, reason=summary)
        if self._ending is None:
            status = member.status
            self._ending = Ending(False, replica=status.name, rank=status.rank, exit_code=code, summary=summary)

    def _env(self, member: _Member, port: int) -> dict[str, str]:
        own = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(len(self._members)),
            "RANK": str(member.status.rank),
        }
        # the author may know better than these
        chosen = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": str(max(1, int(member.cores)))}
        env = {**chosen, **self._launch.env, **own}
        if self._launch.document.get("machine_gpus"):
            env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, member.gpus)))
        return env


def _members(launch: Launch) -> list[_Member]:
    free = list(launch.gpus)
    node = socket.gethostname()
    members: list[_Member] = []
    for role in launch.document["replicas"]:
        for index in range(role["count"]):
            status = ReplicaStatus(
                name=f"{role['role']}-{index}", role=role["role"], rank=len(members), phase=Phase.STARTING, node=node
            )
            taken = tuple(free[: role["gpus"]])
            del free[: role["gpus"]]
            members.append(_Member(status, role["cores"], taken))
    return members


def _free_port() -> int:
    """Return a port that is free now. Bound and closed: another program may take it before the master does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
