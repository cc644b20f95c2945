"""One run at one moment, put in order once for everything that judges it; and what a judgement is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.events import events_by_uid, shown_events
from siflow_provider.backends.kubernetes.state.notes import veil_of
from siflow_provider.backends.kubernetes.state.objects import Object, Seen, dig, is_true, moment, uid
from siflow_provider.backends.kubernetes.state.queue import queue_of
from siflow_provider.backends.kubernetes.state.replicas import Member, fallen, members, replica_names
from siflow_provider.core.status import Event, Failure, JobRef, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.core.veil import Veil

__all__ = ["SETTLE_SECONDS", "Verdict", "View"]

_RAY_ENDS = frozenset({"Complete", "Failed", "ValidationFailed"})
SETTLE_SECONDS = 5.0
"""Job and pods come in streams of their own; so long an end waits for the pods that explain it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where the run is.

    Attributes:
        reason: why, in plain words.
        failure: set with `failed` and `lost`.
        ended_at: set with a terminal phase.
        leftover: True when the end is our judgement and the cluster goes on holding what belongs to the run.
    """

    phase: Phase
    reason: str = ""
    failure: Failure | None = None
    ended_at: datetime | None = None
    leftover: bool = False


@dataclass(frozen=True)
class View:
    """What is seen of a run, in the words of its kind.

    Attributes:
        job: the job, or its last state once it is gone.
        alive: False once the job is gone.
    """

    ref: JobRef
    seen: Seen
    job: Object
    alive: bool
    now: datetime

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The replicas in order."""
        return members(self.ref.kind, self.job, self.seen, self.told, over=self.over)

    @cached_property
    def told(self) -> Mapping[str, list[Object]]:
        """Object uid -> the events about it, oldest first."""
        return events_by_uid(self.seen.events)

    @cached_property
    def fallen(self) -> tuple[Member, ...]:
        """Pods that failed and that others have taken the place of."""
        return fallen(self.ref.kind, self.job, self.seen, self.told)

    @property
    def over(self) -> bool:
        """Whether the job's controller has written its end, or the job is gone: no pod is made any more."""
        ended = any(is_true(self.job, kind) for kind in ("Failed", "Succeeded", "Complete"))
        return ended or not self.alive or dig(self.job, "status", "jobDeploymentStatus") in _RAY_ENDS

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Object uid -> what people call it."""
        seen = self.seen
        own = {uid(self.job): self.ref.name, uid(seen.workload): f"queue {queue_of(self.job)}"}
        clusters = {uid(cluster): "the Ray cluster" for cluster in seen.clusters}
        return {**own, **clusters, **replica_names(self.ref.kind, self.job, (*seen.gone_pods, *seen.pods))}

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Events that a person should read, oldest first."""
        return shown_events(self.seen.events, self.names)

    @cached_property
    def veil(self) -> Veil:
        """Over the run's hidden values."""
        return veil_of(self.job)

    @property
    def sees_pods(self) -> bool:
        """Whether a missing pod is known to be missing."""
        return "pods" not in self.seen.blind

    @property
    def made_at(self) -> datetime | None:
        """When the job was made."""
        return moment(self.job, "metadata", "creationTimestamp")

    def age_of(self, time: datetime | None) -> float:
        """Return the seconds since a moment; endless when it is not known."""
        return float("inf") if time is None else (self.now - time).total_seconds()
