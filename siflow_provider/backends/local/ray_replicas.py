"""What is known of a RayJob's replicas: the submitter, which runs the command, the head and the workers."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace

from siflow_provider.backends.local.ray_plan import NodePlan
from siflow_provider.backends.local.runner import Ending
from siflow_provider.core.status import Phase, ReplicaStatus, main_replica

__all__ = ["SUBMITTER", "Replicas"]

SUBMITTER = main_replica("RayJob")
"""The replica whose output is that of the user's command."""


class Replicas:
    """The statuses of all replicas, each changed by what was seen of it. `mark_*` say whether that was new."""

    def __init__(self, nodes: Sequence[NodePlan]) -> None:
        names = [SUBMITTER, *(name for node in nodes for name in node.replicas)]
        machine = socket.gethostname()
        self._statuses = {
            name: ReplicaStatus(name=name, role=name.rpartition("-")[0], phase=Phase.STARTING, node=machine)
            for name in names
        }

    def statuses(self) -> tuple[ReplicaStatus, ...]:
        """Return them all: submitter, head, workers."""
        return tuple(self._statuses.values())

    def mark_running(self, node: NodePlan) -> bool:
        """Note that a node has joined its cluster."""
        waiting = [name for name in node.replicas if self._statuses[name].phase is Phase.STARTING]
        for name in waiting:
            self._change(name, Phase.RUNNING)
        return bool(waiting)

    def start_anew(self) -> None:
        """Note that every replica is started once more."""
        for name in self._statuses:
            self._change(name, Phase.STARTING)

    def mark_ended(self, node: NodePlan, code: int) -> bool:
        """Note that a node's process has ended by itself."""
        living = [name for name in node.replicas if not self._statuses[name].phase.terminal]
        for name in living:
            self._change(name, Phase.FAILED, code)
        return bool(living)

    def mark_submitter_running(self) -> bool:
        """Note that the user's command runs."""
        if self._statuses[SUBMITTER].phase is not Phase.STARTING:
            return False
        self._change(SUBMITTER, Phase.RUNNING)
        return True

    def end_submitter(self, ending: Ending) -> None:
        """Note how the user's command ended, or that it will never run."""
        if ending.succeeded:
            self._change(SUBMITTER, Phase.SUCCEEDED, 0)
        elif ending.replica == SUBMITTER:
            self._change(SUBMITTER, Phase.FAILED, ending.exit_code, ending.summary)
        else:
            self._change(SUBMITTER, Phase.STOPPED, None, f"ended because {ending.replica} failed")

    def close(self, ending: Ending | None) -> None:
        """Note that nothing runs any more."""
        if ending is None:
            phase, reason = Phase.STOPPED, "ended by the stop"
        elif ending.succeeded:
            phase, reason = Phase.SUCCEEDED, "ended with the job"
        else:
            phase, reason = Phase.STOPPED, f"ended because {ending.replica} failed"
        for name, status in self._statuses.items():
            if not status.phase.terminal:
                self._change(name, phase, None, reason)

    def _change(self, name: str, phase: Phase, code: int | None = None, reason: str = "") -> None:
        self._statuses[name] = replace(self._statuses[name], phase=phase, exit_code=code, reason=reason)
