"""Kubernetes events: which belong to an object, and which of them a person should read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, dig, moment
from siflow_provider.backends.kubernetes.state.queue import plain_eviction
from siflow_provider.backends.kubernetes.state.waiting import plain_refusal, plain_scheduling
from siflow_provider.core.status import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

__all__ = ["event_time", "events_by_uid", "is_refusal", "shown_events"]

_SHOWN_NORMAL = frozenset({"NodeNotReady", "TaintManagerEviction"})
"""Normal events that say something which the phases do not."""
_EVICTED = "EvictedDueTo"
# source: training-operator v1.9.3 pkg/controller.v1/control, KubeRay v1.6.0 utils/constant.go, Kubernetes batch/job
_REFUSALS = ("FailedCreate", "FailedToCreate", "TrainJobResourcesCreationFailed")
_CONTROLLERS_OWN = ("FailedTo", "FailedCreate", "FailedDelete", "TrainJobResourcesCreationFailed")
_RACES = re.compile(r"already exists|not found|the object has been modified")
"""A controller that looked at an old state of things; it looks again."""
_NOT_SHOWN = frozenset({"BackOff", "Unhealthy", "SetPodTemplateRestartPolicy"})
"""Warnings that a pod's own state tells better, and one that tells of the rendering and of no trouble."""
_RAY_ENDED = re.compile(
    r"^Deleted (?:head|worker) Pod \S+/(\S+?);.*ContainerStateTerminated\{ExitCode:(\d+),.*?Reason:(\w*)"
)
"""KubeRay takes a dead Ray pod away, with its exit code and log, and makes another: its word is all that is left."""
_MAX_EVENTS = 50


def event_time(event: Object) -> datetime | None:
    """Return when the event last happened."""
    return (
        moment(event, "series", "lastObservedTime")
        or moment(event, "lastTimestamp")
        or moment(event, "eventTime")
        or moment(event, "firstTimestamp")
        or moment(event, "metadata", "creationTimestamp")
    )


def events_by_uid(events: Iterable[Object]) -> dict[str, list[Object]]:
    """Return object uid -> the events about this very object, oldest first."""
    out: dict[str, list[Object]] = {}
    for event in sorted(events, key=_when):
        out.setdefault(str(dig(event, "involvedObject", "uid")), []).append(event)
    return out


def is_refusal(event: Object) -> bool:
    """Say whether a controller could not make an object of the run."""
    reason = str(event.get("reason") or "")
    return event.get("type") == "Warning" and reason.startswith(_REFUSALS) and not _is_race(event)


def _is_race(event: Object) -> bool:
    own = str(event.get("reason") or "").startswith(_CONTROLLERS_OWN)
    return own and _RACES.search(str(event.get("message") or "")) is not None


def _when(event: Object) -> str:
    time = event_time(event)
    return "" if time is None else time.isoformat()


def shown_events(events: Iterable[Object], names: Mapping[str, str]) -> tuple[Event, ...]:
    """Return the events that a person should read, oldest first.

    Args:
        events: core/v1 Events.
        names: uid of an object -> what people call it, such as `worker-1`.
    """
    out: dict[str, Event] = {}
    for event in sorted(events, key=_when):
        time = event_time(event)
        if time is None or not _is_shown(event):
            continue
        text = _text(event, names)
        out.pop(text, None)
        out[text] = Event(time=time, text=text, warning=event.get("type") == "Warning" or _ray_end(event) is not None)
    return tuple(out.values())[-_MAX_EVENTS:]


def _is_shown(event: Object) -> bool:
    reason = str(event.get("reason") or "")
    if dig(event, "involvedObject", "kind") == "Workload" and not reason.startswith(_EVICTED):
        return False  # the place in the queue tells it
    if event.get("type") == "Warning":
        return reason not in _NOT_SHOWN and not _is_race(event)
    return reason in _SHOWN_NORMAL or reason.startswith(_EVICTED) or _ray_end(event) is not None


def _ray_end(event: Object) -> re.Match[str] | None:
    return _RAY_ENDED.match(str(event.get("message") or ""))


def _text(event: Object, names: Mapping[str, str]) -> str:
    about = dig(event, "involvedObject") or {}
    who = names.get(str(about.get("uid")), f"{about.get('kind')} {about.get('name')}")
    reason, message = str(event.get("reason") or ""), str(event.get("message") or "").strip()
    ended = _ray_end(event)
    if ended is not None:
        message = f"{ended[1]} ended with exit code {ended[2]} ({ended[3]}); KubeRay makes another"
    elif reason == "FailedScheduling":
        message = plain_scheduling(message)
    elif reason.startswith(_EVICTED):
        reason, message = "Evicted", plain_eviction(message)
    elif "is forbidden" in message:
        message = plain_refusal(message)
    return f"{who}: {reason}: {message}" if message else f"{who}: {reason}"
