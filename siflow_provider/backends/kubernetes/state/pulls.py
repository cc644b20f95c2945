"""How often the image of one pod could not be pulled: what `image_pull_retries` counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, Seen, dig, uid
from siflow_provider.backends.kubernetes.state.waiting import IMAGE_TROUBLE, NO_PULL, PULL_FAILED, all_container_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

__all__ = ["PullCounts", "failed_pulls"]

_TOLD = "Failed to pull image"
# source: kubelet v1.36 pkg/kubelet/images/image_manager.go
_LOOK_SECONDS = 15.0
"""Within this time a kubelet looks again for an image that it may not pull, and its pod's state stays as it is."""
# source: kubelet v1.36 pkg/kubelet/kubelet.go (backOffPeriod), pod_workers.go (workerBackOffPeriodJitterFactor)


@dataclass(frozen=True, slots=True)
class _Count:
    reason: str = ""
    failed: int = 0
    since: datetime | None = None


class PullCounts:
    """Counts failed pulls by the states of containers, for as long as somebody watches them.

    A pull that fails shows as `ErrImagePull` (or the runtime's own word), then as `ImagePullBackOff` until the next one
    begins. Of an image that may not be pulled each look of the kubelet counts. A state that was missed makes the count
    too small, never too large.

    Example:
        >>> counts.see(pods, utc_now())
        {'0b5c…': 2}
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Count] = {}

    def see(self, pods: Iterable[Object], now: datetime) -> dict[str, int]:
        """Take in what the pods show now, and return pod uid -> failed pulls of one of its containers so far."""
        known: dict[tuple[str, str], _Count] = {}
        out: dict[str, int] = {}
        for pod in pods:
            for state in all_container_states(pod):
                key = (uid(pod), str(state.get("name")))
                count = _counted_on(self._known.get(key, _Count()), state, now)
                known[key] = count
                if count.failed:
                    out[key[0]] = max(out.get(key[0], 0), count.failed)
        self._known = known
        return out


def _counted_on(before: _Count, state: Object, now: datetime) -> _Count:
    reason, failed = str(dig(state, "state", "waiting", "reason") or ""), before.failed
    if reason == NO_PULL:
        since = before.since or now
        return _Count(reason, max(failed, 1 + int((now - since).total_seconds() // _LOOK_SECONDS)), since)
    if reason in PULL_FAILED and before.reason not in PULL_FAILED:
        failed += 1
    elif reason in IMAGE_TROUBLE:
        failed = max(failed, 1)
    return _Count(reason, failed)


def failed_pulls(seen: Seen, told: Mapping[str, list[Object]]) -> int:
    """Return the largest number of failed pulls of one pod that waits for its image.

    The kubelet's events count them, and so do the containers' states while they are watched: where events can't be
    read, or their server drops some, those are enough. An event may come before the state that says which replica
    waits, or be of a pull that was made good since: without that state it does not count.
    """
    waiting = [pod for pod in (*seen.pods, *seen.gone_pods) if _waits(pod)]
    return max((max(_told(told.get(uid(pod), ())), seen.pulls.get(uid(pod), 1)) for pod in waiting), default=0)


def _told(events: Iterable[Object]) -> int:
    return sum(
        int(dig(event, "series", "count") or event.get("count") or 1)
        for event in events
        if event.get("reason") == NO_PULL
        or (event.get("reason") == "Failed" and str(event.get("message") or "").startswith(_TOLD))
    )


def _waits(pod: Object) -> bool:
    return any(dig(state, "state", "waiting", "reason") in IMAGE_TROUBLE for state in all_container_states(pod))
