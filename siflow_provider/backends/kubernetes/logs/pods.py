"""What a pod object says about its containers' logs: which there are, in which order, and whether more will come."""

from __future__ import annotations

from enum import Enum, auto

from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig, items
from siflow_provider.backends.kubernetes.state.pods import is_out_of_reach
from siflow_provider.backends.kubernetes.state.replicas import MAIN_CONTAINERS

__all__ = ["Stage", "is_cut_off", "is_over", "is_silent", "is_unmade", "log_containers", "main_container", "stage_of"]

_OPERATORS_OWN = frozenset({"init-pytorch", "wait-gcs-ready"})
"""Init containers that the training operator and KubeRay add; they ask for the master's or the head's address over and
over, and print each answer."""
_ENDED = frozenset({"Succeeded", "Failed"})


class Stage(Enum):
    """Where a container is, as far as its log goes."""

    WAITING = auto()
    """No log yet."""
    OPEN = auto()
    """There is a log, and it goes on, or another one of the container will follow."""
    ENDED = auto()
    """There is a log, and all of it is written."""
    NEVER = auto()
    """It did not start, and will not."""


def main_container(pod: Object, replica: str) -> str:
    """Return the container that runs the user's code, or the part of Ray: by its name, else the first."""
    role, names = replica.rpartition("-")[0], [str(each.get("name")) for each in items(pod, "spec", "containers")]
    wanted = (MAIN_CONTAINERS.get(role, ""), f"ray-{role}")
    return next((name for name in wanted if name in names), names[0] if names else "")


def log_containers(pod: Object, replica: str) -> list[tuple[str, bool]]:
    """Return the containers to read, one after another as they run: (name, whether it is an init container).

    What runs beside the main container (sidecars, Ray's autoscaler) is not the replica's output.
    """
    first = [
        str(each.get("name")) for each in items(pod, "spec", "initContainers") if each.get("restartPolicy") != "Always"
    ]
    return [*((name, True) for name in first), (main_container(pod, replica), False)]


def stage_of(pod: Object, container: str) -> Stage:
    """Say what is to be expected of a container's log."""
    over = is_over(pod)
    states = [*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")]
    state: Object = next((each for each in states if each.get("name") == container), {})
    ended = dig(state, "state", "terminated")
    if ended is not None:
        return Stage.ENDED if over or _stays_ended(pod, container, ended) else Stage.OPEN
    if dig(state, "state", "running") is not None:
        return Stage.ENDED if over else Stage.OPEN
    if dig(state, "lastState", "terminated") is not None:
        return Stage.ENDED if over else Stage.OPEN
    return Stage.NEVER if over else Stage.WAITING


def is_silent(pod: Object, container: str) -> bool:
    """Say whether a container's output is of no use: an operator's own one that has not failed."""
    if container not in _OPERATORS_OWN:
        return False
    states = items(pod, "status", "initContainerStatuses")
    state: Object = next((each for each in states if each.get("name") == container), {})
    return not dig(state, "state", "terminated", "exitCode")


def is_unmade(pod: Object, container: str) -> bool:
    """Say whether a container counts as ended that has no id: its pod was deleted before it was made, or lost it."""
    states = [*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")]
    state: Object = next((each for each in states if each.get("name") == container), {})
    ended = dig(state, "state", "terminated")
    return ended is not None and not (ended.get("containerID") or state.get("containerID"))


def is_over(pod: Object) -> bool:
    """Say whether no container of the pod runs, nor will."""
    return dig(pod, "status", "phase") in _ENDED


def is_cut_off(pod: Object) -> bool:
    """Say whether the cluster has lost the pod's node, so that nobody but the node itself has the pod's logs."""
    taken = condition(pod, "DisruptionTarget").get("reason") in {"DeletionByTaintManager", "DeletionByPodGC"}
    return taken or is_out_of_reach(pod)


def _stays_ended(pod: Object, container: str, ended: Object) -> bool:
    policy = dig(pod, "spec", "restartPolicy")
    if policy == "Never" or dig(pod, "metadata", "deletionTimestamp") is not None:
        return True
    initial = any(each.get("name") == container for each in items(pod, "spec", "initContainers"))
    return ended.get("exitCode") == 0 and (initial or policy == "OnFailure")
