"""The processes of one local Ray cluster, from its temporary folder to its end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.processes import exit_code
from siflow_provider.backends.local.ray_api import RayApi
from siflow_provider.backends.local.ray_job import entrypoint, redirect_output
from siflow_provider.backends.local.ray_leftovers import remember_temp_dir, remove_cluster, remove_leftovers
from siflow_provider.backends.local.ray_nodes import (
    cluster_env,
    head_ports,
    head_request,
    make_temp_dir,
    node_command,
    node_env,
    started_file,
    submit_command,
    worker_request,
    write_request,
    write_token,
)
from siflow_provider.backends.local.ray_plan import NodePlan
from siflow_provider.backends.local.runner import Launch

__all__ = ["RayProcesses"]


class RayProcesses:
    """Starts and ends the nodes and the submission of one cluster; the head is the first node.

    Attributes:
        token_file: holds the cluster's token; its owner alone can read it.
    """

    def __init__(self, launch: Launch, nodes: Sequence[NodePlan]) -> None:
        self._launch = launch
        self._work = launch.folder / "work"
        self._head, self._workers = nodes[0], nodes[1:]
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._submission: subprocess.Popen[bytes] | None = None
        self._temp_dir: Path | None = None
        self.token_file = self._work / "ray-token"

    @property
    def pids(self) -> dict[str, int]:
        """Replica name of each node -> process id of its first process."""
        return {name: process.pid for name, process in self._started.items()}

    @property
    def head_lives(self) -> bool:
        """Whether the head's first process is there."""
        head = self._started.get(self._head.replica)
        return head is not None and head.poll() is None

    def start_head(self, extra_env: Mapping[str, str], *, patient: bool) -> RayApi:
        """Start the head on ports of its own and return the way to ask it; it answers some seconds later."""
        if self._temp_dir is None:
            self._temp_dir = make_temp_dir()
            remember_temp_dir(self._work, self._temp_dir)
        token = write_token(self.token_file)
        self._taken: set[int] = set()
        self._ports = head_ports(self._taken)
        self._env = cluster_env({**self._launch.env, **extra_env}, self._ports, self._temp_dir, self.token_file)
        started_file(self._head, self._temp_dir).unlink(missing_ok=True)
        self._spawn(self._head, head_request(self._head, self._ports, self._temp_dir, patient=patient))
        return RayApi(f"http://127.0.0.1:{self._ports['dashboard_port']}", token)

    @property
    def head_has_started(self) -> bool:
        """Whether workers can join the head."""
        return started_file(self._head, self._folder).exists()

    def start_workers(self) -> None:
        """Start every worker node at once."""
        for node in self._workers:
            self._spawn(node, worker_request(node, self._ports["port"], self._taken, self._folder))

    def submit(self, api: RayApi) -> None:
        """Start the process that submits the job under the run's name."""
        redirect_output(self._folder, self._launch)
        request = {
            "address": api.url,
            "submission_id": self._launch.name,
            "entrypoint": entrypoint(self._launch),
            "runtime_env": self._launch.document["ray"].get("runtime_env") or {},
        }
        path = write_request(self._folder / "submit.json", request)
        self._submission = self._launch.processes.spawn(
            [*self._launch.prefix, *submit_command(path)],
            env=self._env,
            directory=self._launch.directory,
            log=self._work / "ray-submit.log",
        )

    def submission_code(self) -> int | None:
        """Return the exit code of that process; None while it runs."""
        return self._submission.poll() if self._submission is not None else None

    def submission_answer(self) -> str:
        """Return the last thing that it said."""
        lines = (self._work / "ray-submit.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.submission_code()}"

    def ended_nodes(self) -> Iterator[tuple[NodePlan, int]]:
        """Yield each node whose first process has ended, with its exit code."""
        for node in (self._head, *self._workers):
            process = self._started.get(node.replica)
            if process is not None and process.poll() is not None:
                yield node, exit_code(process.returncode)

    def drop_nodes(self) -> None:
        """End every node at once, so that they can be started anew."""
        self._launch.processes.end(self._started.values(), 0.0)
        self._started.clear()

    def end(self, grace_seconds: float) -> None:
        """End everything, keep Ray's own logs in the run's folder, and remove the temporary one."""
        submission = [self._submission] if self._submission is not None else []
        self._launch.processes.end([*submission, *self._started.values()], grace_seconds)
        if self._temp_dir is None:
            return
        logs = self._temp_dir / "session_latest" / "logs"
        try:
            if logs.is_dir() and self._work.is_dir():  # else somebody removed the run's folder
                shutil.copytree(logs, self._work / "ray-logs", symlinks=True, dirs_exist_ok=True)
        except OSError as error:
            self._launch.event(f"not all of Ray's own logs could be kept: {error}", warning=True)
        remove_leftovers(self._work)
        remove_cluster(self._temp_dir)  # the note of it may be gone with the run's folder

    @property
    def _folder(self) -> Path:
        if self._temp_dir is None:
            raise RuntimeError("the head has to be started first")
        return self._temp_dir

    def _spawn(self, node: NodePlan, request: Mapping[str, Any]) -> None:
        path = write_request(self._folder / f"{node.replica}.json", request)
        self._started[node.replica] = self._launch.processes.spawn(
            [*self._launch.prefix, *node_command(path)],
            env=node_env(self._env, node, machine_gpus=bool(self._launch.document.get("machine_gpus"))),
            directory=self._launch.directory,
            log=self._launch.log(node.replica),
        )
