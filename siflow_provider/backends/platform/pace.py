"""How often the platform is asked, and for how long an answer is waited for. All lengths in seconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Every rhythm of the backend in one place.

    Attributes:
        connect: for a connection to open.
        answer: for an answer to come; the platform's calls are known to hang behind proxies.
        tries: how often a call that may be repeated is made.
        first_pause: before the second of these; it doubles, with jitter.
        listing: between two listings, when something has just changed.
        longest_listing: between two listings, when nothing has changed for long.
        pods: how old the pods of a running task may get before they are asked for again.
        pods_per_minute: requests for pods of running tasks, all tasks together.
        logs: between two looks at the log of a running task.
        longest_logs: the same, of one that has said nothing for a while.
        settle: how long after the end a log may still grow.
        visible: how long after its creation a task may be missing in listings.
        stopping: how long a stop may take.
    """

    connect: float = 5.0
    answer: float = 20.0
    tries: int = 4
    first_pause: float = 0.5
    listing: float = 10.0
    longest_listing: float = 30.0
    pods: float = 20.0
    pods_per_minute: float = 60.0
    logs: float = 5.0
    longest_logs: float = 30.0
    settle: float = 5.0
    visible: float = 90.0
    stopping: float = 120.0
