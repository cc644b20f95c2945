"""A RayJob on this machine: a real Ray cluster of its own, and the command submitted to it as a Ray job.

The head comes up, the workers join it as nodes, the job is submitted under the run's name, and its end is the run's.
Each of these is a step that `poll` takes when it is due. The cluster belongs to this one run and ends with it, or
`ray.debug.keep_seconds` later. `ray stop` is never used: it ends every cluster of the machine.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.ray_job import ending_of, shared_env
from siflow_provider.backends.local.ray_plan import NodePlan, plan_nodes
from siflow_provider.backends.local.ray_processes import RayProcesses
from siflow_provider.backends.local.ray_replicas import SUBMITTER, Replicas
from siflow_provider.backends.local.runner import Ending, Launch, RunnerState
from siflow_provider.errors import BackendUnavailable

__all__ = ["RayCluster"]

_START_SECONDS = 120.0
_STARTS = 3
_ASK_EVERY_SECONDS = 0.25
_STOP_JOB_SHARE = 0.3
_STOP_LOOK_SECONDS = 0.1
_SHARED_MEMORY = Path("/dev/shm")
_BUSY_LOAD = 3.0
"""Processes that want each core."""


class RayCluster:
    """The runner of a RayJob."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._ray: dict[str, Any] = launch.document["ray"]
        self._nodes = plan_nodes(launch.document, launch.gpus, shutil.disk_usage(_SHARED_MEMORY).free)
        self._replicas = Replicas(self._nodes)
        self._processes = RayProcesses(launch, self._nodes)
        self._step: Callable[[], None] = self._wait_for_head
        self._ending: Ending | None = None
        self._driver_pid: int | None = None
        self._finished = self._stopped = False
        self._starts = 0
        self._deadline = self._ask_at = 0.0
        self._reason = ""
        self._links: dict[str, str] = {}

    # -- what the supervisor calls

    def start(self) -> None:
        """Start the head; the rest follows as polls find it ready."""
        self._starts += 1
        self._deadline = time.monotonic() + _START_SECONDS
        self._api = self._processes.start_head(shared_env(self._launch), patient=self._starts > 1 or _is_busy())
        self._links = {}
        self._reason = "the Ray head is starting"

    def poll(self) -> RunnerState:
        """Take the step that is due."""
        if not self._finished:
            self._look_at_nodes()
        if not self._finished:
            self._step()
        pids = self._processes.pids
        if self._driver_pid is not None:
            pids[SUBMITTER] = self._driver_pid
        return RunnerState(
            replicas=self._replicas.statuses(),
            pids=pids,
            ending=self._ending,
            finished=self._finished,
            links=dict(self._links),
            reason=self._reason,
        )

    def stop(self, grace_seconds: float) -> None:
        """End the job, then the cluster, and remove what it kept on disk but for Ray's logs."""
        self._finished = True
        if self._stopped:
            return
        self._stopped = True
        deadline = time.monotonic() + grace_seconds
        if self._step == self._follow_job and self._ending is None:
            self._stop_job(time.monotonic() + grace_seconds * _STOP_JOB_SHARE)
        # after the job nothing of the user's has to be waited for: Ray ends the job's own tasks and actors with it
        self._processes.end(max(0.0, deadline - time.monotonic()) if self._ending is None else 0.0)
        self._replicas.close(self._ending)
        self._links = {}

    # -- the steps, in order

    def _wait_for_head(self) -> None:
        if not self._processes.head_has_started:
            self._give_up_late([self._nodes[0].replica])
            return
        # not before: a head of Ray 2.40 takes a worker of its own address for itself, and ends
        self._processes.start_workers()
        self._deadline = time.monotonic() + _START_SECONDS
        self._reason = "the Ray nodes are starting"
        self._step = self._wait_for_nodes

    def _wait_for_nodes(self) -> None:
        if not self._is_due():
            return
        alive = self._alive_nodes()
        if alive and not self._links:
            self._links = {"dashboard": self._api.url}
            token = self._processes.token_file
            self._launch.event(f"Ray's dashboard: {self._api.url} (where it asks for a token: {token} holds it)")
        for node in self._nodes:
            if node.replica in alive and self._replicas.mark_running(node):
                self._launch.event(f"{', '.join(node.replicas)} joined the Ray cluster")
        missing = [node.replica for node in self._nodes if node.replica not in alive]
        if missing:
            self._give_up_late(missing)
            return
        self._processes.submit(self._api)
        self._reason = "the job is being submitted to Ray"
        self._step = self._wait_for_submission

    def _alive_nodes(self) -> set[str]:
        try:
            return self._api.alive_nodes()
        except BackendUnavailable:
            # the dashboard is not there yet, or not all of it
            return set()

    def _wait_for_submission(self) -> None:
        code = self._processes.submission_code()
        if code is None:
            return
        if code == 0:
            self._reason = "Ray prepares the job's runtime environment"
            self._step = self._follow_job
        else:
            said = self._processes.submission_answer()
            self._end(Ending(False, replica=SUBMITTER, summary=f"Ray refused the job: {said}"))

    def _follow_job(self) -> None:
        if not self._is_due():
            return
        try:
            job = self._api.find_job(self._launch.name)
        except BackendUnavailable:
            # a busy dashboard; a dead one is seen by its head
            return
        if job is None:
            return
        self._driver_pid = job.driver_pid
        if job.ended:
            self._end(ending_of(job))
        elif job.status == "RUNNING" and self._replicas.mark_submitter_running():
            self._reason = ""

    def _keep(self) -> None:
        if time.monotonic() >= self._deadline:
            self._launch.event("the kept Ray cluster is ended: ray.debug.keep_seconds are over")
            self._finished = True

    # -- parts of the steps

    def _look_at_nodes(self) -> None:
        """See whether a node has ended by itself: the head's end is the run's, a worker's is told to the user."""
        for node, code in list(self._processes.ended_nodes()):
            if self._is_starting and self._starts < _STARTS:
                # somebody took one of its ports first, or the machine is too busy
                text = f"the Ray node {node.replica} ended at its start (exit code {code}); all nodes are started anew"
                self._launch.event(text, warning=True)
                self._processes.drop_nodes()
                self._replicas.start_anew()
                self._step = self._wait_for_head
                self.start()
                return
            if self._replicas.mark_ended(node, code):
                self._node_ended(node, code)

    def _node_ended(self, node: NodePlan, code: int) -> None:
        if self._ending is not None:
            self._launch.event(f"the Ray node {node.replica} ended (exit code {code}) after the job", warning=True)
            self._finished = self._finished or node is self._nodes[0]
        elif self._is_starting or node is self._nodes[0]:
            when = "before the job was submitted" if self._is_starting else "before the job did"
            summary = f"the Ray node {node.replica} ended {when} (exit code {code})"
            # of a start it is Ray's own exit code: it says nothing about the user's code, which never ran
            told = None if self._is_starting else code
            self._end(Ending(False, replica=node.replica, exit_code=told, summary=summary))
        else:
            text = f"the Ray node {node.replica} ended (exit code {code}); Ray runs its work elsewhere where it can"
            self._launch.event(text, warning=True)

    @property
    def _is_starting(self) -> bool:
        return self._step in (self._wait_for_head, self._wait_for_nodes)

    def _give_up_late(self, missing: list[str]) -> None:
        if time.monotonic() > self._deadline:
            summary = f"{', '.join(missing)} did not come up within {_START_SECONDS:.0f} s"
            self._end(Ending(False, replica=self._nodes[0].replica, summary=summary))

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        self._replicas.end_submitter(ending)
        self._reason = ""
        keep = (self._ray.get("debug") or {}).get("keep_seconds", 0.0)
        if not keep or not self._processes.head_lives:
            self._finished = True
            return
        self._deadline = time.monotonic() + keep
        self._launch.event(
            f"the Ray cluster is kept for {keep:g} s (ray.debug), a stop ends it earlier; dashboard: {self._api.url}"
        )
        self._step = self._keep

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._ask_at:
            return False
        self._ask_at = now + _ASK_EVERY_SECONDS
        return True

    def _stop_job(self, deadline: float) -> None:
        """Let Ray end the driver in its own way, as far as there is time."""
        pause = threading.Event()
        try:
            self._api.stop_job(self._launch.name)
            while time.monotonic() < deadline and not self._has_ended():
                pause.wait(_STOP_LOOK_SECONDS)
        except BackendUnavailable as error:
            self._launch.event(f"Ray did not take the stop ({error}); its processes are ended", warning=True)

    def _has_ended(self) -> bool:
        job = self._api.find_job(self._launch.name)
        return job is not None and job.ended


def _is_busy() -> bool:
    return os.getloadavg()[0] > _BUSY_LOAD * (os.cpu_count() or 1)
