"""What `gc` does with a run: decided from its phase, and from what Airflow says of its task instance. Pure.

A run is stopped only when it is known that its try is over. Whatever is not known keeps it: a stopped training that
somebody waits for costs more than one that nobody waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from siflow_provider.spec.duration import format_duration

if TYPE_CHECKING:
    from siflow_provider.core.status import Status

__all__ = ["UNASKED", "Action", "Age", "Instance", "Verdict", "decide", "is_live"]

Action = Literal["stop", "delete", "keep"]
Answer = Literal["there", "missing", "unknown"]
# source: Airflow 3 `airflow.utils.state`, TaskInstanceState: the states that a task instance leaves only by a new try
_OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(frozen=True, slots=True)
class Instance:
    """What Airflow says of a task instance.

    Attributes:
        answer: it is `there`, it is `missing` (404), or that is `unknown`.
        state: Airflow's word; None for an instance that waits for the scheduler, as after a clear.
        try_number: the try that it is at.
        id: Airflow's own id of it; "" where that is not told.
        why: for `unknown`, the reason.
    """

    answer: Answer
    state: str | None = None
    try_number: int = 0
    id: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.answer != "there":
            return self.answer
        return f"{self.state or 'no state'}, try {self.try_number}"


UNASKED = Instance("unknown", why="no Airflow was asked: see --airflow")


@dataclass(frozen=True, slots=True)
class Age:
    """From which age on ended runs are deleted; the whole of it may be left out."""

    limit_seconds: float
    now: datetime

    def reached_by(self, status: Status) -> bool:
        """Say whether a run ended that long ago; one whose end has no time never has."""
        ended = status.ended_at
        return ended is not None and self.now - ended >= timedelta(seconds=self.limit_seconds)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done with a run, and why; `unsure` where more knowledge could have ended it."""

    action: Action
    why: str
    unsure: bool = False


def is_live(status: Status) -> bool:
    """Say whether a run works or holds its place, also where only its backend has given it up."""
    return not status.phase.terminal or status.leftover


def is_of_another(status: Status, installation: str) -> bool:
    """Say whether a run belongs to another Airflow than the one of that name; one started by hand never does."""
    return status.origin is not None and status.origin.installation != installation


def decide(
    status: Status,
    instance: Instance,
    *,
    age: Age | None,
    missing: bool,
    asked: bool,
    retried: bool = False,
    installation: str = "",
) -> Verdict:
    """Return what to do with a run.

    Args:
        status: the run.
        instance: its task instance.
        age: from when on ended runs are deleted; None for never.
        missing: a task instance that Airflow does not know counts as over.
        asked: Airflow was asked, so that a task that may still want an ended run is told from one that does not.
        retried: another attempt of the same run works, maybe on the data that both share.
        installation: the `[siflow] installation` of the Airflow whose runs are looked at.

    Example:
        >>> decide(running, Instance("there", "failed", 1), age=None, missing=False, asked=True).action
        'stop'
    """
    if is_of_another(status, installation):
        return Verdict("keep", f"it {_owner(status)}: --installation chooses whose runs are looked at")
    if is_live(status):
        return _of_live(status, instance, missing=missing)
    if age is None or not age.reached_by(status):
        return Verdict("keep", "it has ended")
    if retried:
        return Verdict("keep", "it has ended, but another attempt of its run works, and may use its data")
    over = _why_over(status, instance, missing=missing)
    gone = instance.answer == "missing" or _is_made_again(status, instance)
    if asked and status.origin is not None and over is None and not gone:
        return Verdict("keep", f"it has ended, but its task may read it: {_why_alive(instance)}")
    return Verdict("delete", f"it ended {format_duration(age.limit_seconds)} ago or earlier")


def _of_live(status: Status, instance: Instance, *, missing: bool) -> Verdict:
    origin = status.origin
    if origin is None:
        return Verdict("keep", "it was started by hand")
    if origin.detached:
        return Verdict("keep", "it outlives its task: on_kill_action='detach'")
    over = _why_over(status, instance, missing=missing)
    if over is not None:
        return Verdict("stop", over)
    if instance.answer == "missing":
        why = "this Airflow has no such task instance: removed, or another Airflow's; --missing stops it"
        return Verdict("keep", why, unsure=True)
    if _is_made_again(status, instance):
        why = "this Airflow has another task instance of this try: made again, or another Airflow's; --missing stops it"
        return Verdict("keep", why, unsure=True)
    return Verdict("keep", _why_alive(instance), unsure=instance.answer == "unknown")


def _why_over(status: Status, instance: Instance, *, missing: bool) -> str | None:
    """Return why the run's try is over; None while it is not, or may not be."""
    if instance.answer == "missing":
        return "its task instance was removed" if missing else None
    if instance.answer == "unknown" or status.origin is None:
        return None
    if _is_made_again(status, instance):
        return "its task instance was removed, and made again" if missing else None
    if instance.try_number > status.origin.try_number:
        return f"its task is at try {instance.try_number}"
    if instance.try_number == status.origin.try_number and instance.state in _OVER:
        return f"its task instance is {instance.state}"
    return None


def _is_made_again(status: Status, instance: Instance) -> bool:
    """Say whether Airflow's task instance of the run's ids and try is another one than the run's."""
    origin = status.origin
    if origin is None or instance.answer != "there" or instance.try_number != origin.try_number:
        return False
    return "" not in {origin.instance, instance.id} and origin.instance != instance.id


def _owner(status: Status) -> str:
    place = "" if status.origin is None else status.origin.installation
    return f"belongs to the installation {place!r}" if place else "names no installation"


def _why_alive(instance: Instance) -> str:
    if instance.answer == "unknown":
        return instance.why
    return f"its task instance is {instance.state or 'about to be scheduled'}"
