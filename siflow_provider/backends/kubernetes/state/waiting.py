"""Why a pod waits or ended, in plain words, from its conditions, its containers' states and its events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, condition, dig, is_true, items

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "IMAGE_TROUBLE",
    "NO_PULL",
    "PULL_FAILED",
    "all_container_states",
    "plain_refusal",
    "plain_scheduling",
    "why_waiting",
]

PULL_FAILED = frozenset({"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"})
"""Waiting reasons of a container whose image was just tried to be pulled."""
NO_PULL = "ErrImageNeverPull"
"""Waiting reason, and reason of the event, of an image that the node lacks and may not pull."""
IMAGE_TROUBLE = PULL_FAILED | {"ImagePullBackOff", NO_PULL, "InvalidImageName"}
"""Waiting reasons of a container without its image."""
_START_TROUBLE = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError"}
    | {"ImageInspectError"}  # the node's own trouble: nothing was pulled
)
# source: kubelet v1.36 pkg/kubelet/images/types.go, image_manager.go (evalCRIPullErr), container/sync_result.go
_MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_VOLUME = re.compile(r"[Vv]olumes? \"([^\"]+)\"")
_UNMOUNTED = re.compile(r"unmounted volumes=\[([^\]]+)\]")
_NODES = re.compile(r"^0/(\d+) nodes are available: (.*?)(?:\. .*)?$", re.DOTALL)
_SHORT = re.compile(r"^(\d+) Insufficient (\S+?)[.,]?$")
_QUOTA = re.compile(r"exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: (.+?)\.?$", re.DOTALL)
_FORBIDDEN = re.compile(r"^.*?\bis forbidden: ", re.DOTALL)


def why_waiting(pod: Object, events: Iterable[Object]) -> str:
    """Return why a pod does not run yet; `events` are the pod's own."""
    if dig(pod, "spec", "nodeName") is None and not is_true(pod, "PodScheduled"):
        return _unscheduled(pod)
    for status in all_container_states(pod):
        text = _container_trouble(pod, status)
        if text:
            return text
    return _getting_ready(pod, list(events))


def all_container_states(pod: Object) -> list[Object]:
    """Return the states of all containers, those that prepare the pod first."""
    return items(pod, "status", "initContainerStatuses") + items(pod, "status", "containerStatuses")


def _unscheduled(pod: Object) -> str:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("reason") == "SchedulingGated":
        gates = ", ".join(str(gate.get("name")) for gate in items(pod, "spec", "schedulingGates"))
        return f"held back from scheduling by the gate {gates}" if gates else "held back from scheduling by a gate"
    message = str(scheduled.get("message") or "")
    return plain_scheduling(message) if message else "waits for the scheduler"


def plain_scheduling(message: str) -> str:
    """Return the scheduler's message with the resources that are short named first.

    Example:
        >>> plain_scheduling("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu.")
        'no node can take it: nvidia.com/gpu is short on 2 of 3 nodes; 1 node(s) were unschedulable'
    """
    match = _NODES.match(message.strip())
    if match is None:
        return message.strip()
    total, parts = match[1], [part.strip().rstrip(".") for part in match[2].split(", ")]
    short, other = [], []
    for part in parts:
        lack = _SHORT.match(part)
        if lack is not None:
            short.append(f"{lack[2]} is short on {lack[1]} of {total} nodes")
        elif part:
            other.append(part)
    return f"no node can take it: {'; '.join(short + other)}"


def _container_trouble(pod: Object, status: Object) -> str:
    waiting = dig(status, "state", "waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "").strip()
    name = status.get("name")
    if reason in IMAGE_TROUBLE:
        image = status.get("image") or _image_of(pod, str(name))
        return f"{reason}: the image {image} can't be pulled" + (f": {message}" if message else "")
    if reason in _START_TROUBLE or reason == "CrashLoopBackOff":
        restarts = status.get("restartCount") or 0
        again = f" ({restarts} restarts so far)" if restarts else ""
        return f"{reason}: container {name} can't start{again}" + (f": {message}" if message else "")
    ended = dig(status, "state", "terminated") or {}
    if ended and ended.get("exitCode"):
        return f"container {name} ended with exit code {ended['exitCode']}" + (f": {message}" if message else "")
    return ""


def _image_of(pod: Object, container: str) -> str:
    for each in items(pod, "spec", "initContainers") + items(pod, "spec", "containers"):
        if each.get("name") == container:
            return str(each.get("image"))
    return "of its container"


def _getting_ready(pod: Object, events: list[Object]) -> str:
    node = dig(pod, "spec", "nodeName")
    trouble = next((event for event in reversed(events) if event.get("type") == "Warning"), None)
    if trouble is not None and trouble.get("reason") in _MOUNT_EVENTS:
        return _mount_text(str(trouble.get("message") or ""))
    if trouble is not None and trouble.get("reason") == "FailedCreatePodSandBox":
        return f"the pod's network can't be set up on {node}: {trouble.get('message')}"
    if any(event.get("reason") == "Pulling" for event in events[-1:]):
        return f"pulls its image on {node}"
    running = [each.get("name") for each in items(pod, "status", "initContainerStatuses") if _runs(each)]
    if running:
        return f"init container {running[0]} runs on {node}"
    return f"its containers are being made on {node}" if node else "waits for its node"


def _runs(status: Object) -> bool:
    return dig(status, "state", "running") is not None


def _mount_text(message: str) -> str:
    match = _VOLUME.search(message) or _UNMOUNTED.search(message)
    return f"volume {match[1]} can't be mounted: {message}" if match else f"a volume can't be mounted: {message}"


def plain_refusal(message: str) -> str:
    """Return why the API server refused an object, as a controller quotes it.

    Example:
        >>> plain_refusal('pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2')
        "the namespace's quota q has no room: requested pods=1, used pods=2, limit pods=2"
    """
    match = _QUOTA.search(message)
    if match is not None:
        name, asked, used, limit = match.groups()
        return f"the namespace's quota {name} has no room: requested {asked}, used {used}, limit {limit}"
    return _FORBIDDEN.sub("refused: ", message.strip(), count=1)
