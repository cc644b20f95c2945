"""How often the image of one pod could not be pulled: what `image_pull_retries` counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, Seen, dig, uid
from siflow_provider.backends.kubernetes.state.waiting import IMAGE_TROUBLE, all_container_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["failed_pulls"]

_PULL_FAILED = "Failed to pull image"
# source: kubelet v1.36 pkg/kubelet/images/image_manager.go


def failed_pulls(seen: Seen, told: Mapping[str, list[Object]]) -> int:
    """Return the largest number of failed pulls of one pod that waits for its image.

    The kubelet's events count them; a container that waits for its image has had one failed pull at least, also where
    events can't be read. An event may come before the state that says which replica waits, or be of a pull that was
    made good since: without that state it does not count.
    """
    waiting = [pod for pod in (*seen.pods, *seen.gone_pods) if _waits(pod)]
    return max((max(_counted(told.get(uid(pod), ())), 1) for pod in waiting), default=0)


def _counted(events: Iterable[Object]) -> int:
    return sum(
        int(dig(event, "series", "count") or event.get("count") or 1)
        for event in events
        if event.get("reason") == "Failed" and str(event.get("message") or "").startswith(_PULL_FAILED)
    )


def _waits(pod: Object) -> bool:
    return any(dig(state, "state", "waiting", "reason") in IMAGE_TROUBLE for state in all_container_states(pod))
