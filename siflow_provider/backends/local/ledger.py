"""The queue of this machine: who waits, who holds what, and who is next. Shared safely by any number of processes.

There is no daemon: each waiting supervisor looks at the ledger itself, under one lock, and admits only its own run. An
entry counts as long as its run's supervisor lives (the run's lock is held), so a killed one gives its share back.
Order: priority, then time of submission; strictly, so that a large gang is not overtaken for ever by small ones. A run
that could never fit is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.capacity import Amounts, machine
from siflow_provider.backends.local.lock import locked
from siflow_provider.backends.local.processes import kill_marked
from siflow_provider.backends.local.store import StateDir, read_json, write_json

__all__ = ["QUEUE", "Admission", "Entry", "Ledger", "Usage"]

QUEUE = "this machine"
"""The name of the one queue that there is here."""
_KILL_SECONDS = 1.0  # everybody's queue stands still meanwhile; the next look tries again
_ORDER = {"high": 0, "medium": 1, "low": 2}


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt's line in the ledger."""

    name: str
    uid: str
    priority: str
    submitted: float
    need: Amounts
    admitted: bool = False
    gpus: tuple[int, ...] = ()

    @property
    def turn(self) -> tuple[int, float, str]:
        """What the queue is ordered by."""
        return (_ORDER[self.priority], self.submitted, self.uid)

    def wire(self) -> dict[str, Any]:
        """Return it as the file holds it."""
        need = [self.need.millicores, self.need.memory, self.need.gpus]
        return {
            "name": self.name,
            "uid": self.uid,
            "priority": self.priority,
            "submitted": self.submitted,
            "need": need,
            "admitted": self.admitted,
            "gpus": list(self.gpus),
        }

    @classmethod
    def parse(cls, raw: Any) -> Entry | None:
        """Read a file's value; None when it is none of ours."""
        try:
            return cls(
                raw["name"],
                raw["uid"],
                raw["priority"],
                float(raw["submitted"]),
                Amounts(*raw["need"]),
                bool(raw["admitted"]),
                tuple(raw["gpus"]),
            )
        except (TypeError, KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Admission:
    """What a look at the queue gave: admitted with these GPUs, or a place and why."""

    admitted: bool
    gpus: tuple[int, ...] = ()
    position: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The whole ledger at one moment."""

    capacity: Amounts
    holding: tuple[Entry, ...] = ()
    waiting: tuple[Entry, ...] = field(default=())

    @property
    def free(self) -> Amounts:
        """What nobody holds."""
        return self.capacity - sum((entry.need for entry in self.holding), Amounts())

    def ahead(self, entry: Entry) -> tuple[Entry, ...]:
        """Return those that are served before `entry`, without those that could never fit."""
        return tuple(other for other in self.waiting if other.turn < entry.turn and other.need.fits(self.capacity))


class Ledger:
    """The entries in `queue/`, changed under one lock."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._folder = state.path / "queue"
        self._lock = self._folder / ".lock"

    def enter(self, entry: Entry) -> None:
        """Put an attempt into the queue."""
        write_json(self._folder / f"{entry.name}.json", entry.wire())

    def leave(self, name: str, uid: str) -> None:
        """Give back the place and the share of this very attempt, and of no other of that name. Idempotent."""
        path = self._folder / f"{name}.json"
        entry = Entry.parse(read_json(path))
        if entry is not None and entry.uid == uid:
            path.unlink(missing_ok=True)

    def usage(self) -> Usage:
        """Return who holds what and who waits, the dead left out. Changes nothing and ends nothing."""
        with locked(self._lock):
            return self._usage([entry for _, entry in self._entries() if entry is not None and self._is_alive(entry)])

    def admit(self, entry: Entry) -> Admission:
        """Let `entry` go if it is its turn and all of it fits; else say where it stands and why."""
        with locked(self._lock):
            usage = self._usage(self._swept())
            ahead = usage.ahead(entry)
            if ahead or not entry.need.fits(usage.free):
                return Admission(False, position=len(ahead) + 1, reason=_reason(entry, usage, ahead))
            taken = {index for other in usage.holding for index in other.gpus}
            free = [index for index in range(usage.capacity.gpus) if index not in taken]
            gpus = tuple(free[: entry.need.gpus])
            held = Entry(entry.name, entry.uid, entry.priority, entry.submitted, entry.need, True, gpus)
            self.enter(held)
            return Admission(True, gpus=gpus)

    def _entries(self) -> Iterator[tuple[Path, Entry | None]]:
        for path in self._folder.glob("*.json"):
            yield path, Entry.parse(read_json(path))

    def _is_alive(self, entry: Entry) -> bool:
        return self._state.run(entry.name).alive

    def _swept(self) -> list[Entry]:
        """Return the entries that count, after the dead were removed and what was left of their runs was ended."""
        kept = []
        for path, entry in self._entries():
            if entry is None:
                path.unlink(missing_ok=True)
            elif self._is_alive(entry) or kill_marked(entry.uid, patience_seconds=_KILL_SECONDS):
                kept.append(entry)  # a dead run's share is free only when nothing of it runs any more
            else:
                self._state.run(entry.name).hidden.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        return kept

    def _usage(self, entries: list[Entry]) -> Usage:
        entries.sort(key=lambda entry: entry.turn)
        return Usage(
            machine(self._state),
            tuple(entry for entry in entries if entry.admitted),
            tuple(entry for entry in entries if not entry.admitted),
        )


def _reason(entry: Entry, usage: Usage, ahead: tuple[Entry, ...]) -> str:
    if not entry.need.fits(usage.capacity):
        return f"can never fit on this machine: {shortages(entry.need, usage.capacity, 'it has')}"
    if not entry.need.fits(usage.free):
        text = f"waits for room: {shortages(entry.need, usage.free, 'free')}"
    else:
        text = "waits for its turn"
    if ahead:
        first = ahead[0]
        text += f"; {len(ahead)} ahead, first {first.name} (priority {first.priority})"
    return text


def shortages(need: Amounts, have: Amounts, word: str) -> str:
    """Return the numbers that are short in one line, such as `4 cores needed, free 2`."""
    parts = []
    for (name, wanted, unit), (_, there, _) in zip(need.rows(), have.rows(), strict=True):
        if wanted > there:
            parts.append(f"{_amount(name, wanted, unit)} needed, {word} {_amount(name, max(0.0, there), unit)}")
    return ", ".join(parts)


def _amount(name: str, value: float, unit: str) -> str:
    if name == "memory":
        return f"{value / 2**30:.2f} GiB of memory"
    return f"{value:g} {unit}"
