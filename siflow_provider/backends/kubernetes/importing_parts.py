"""Reading somebody's manifest without losing a word of it: what nobody took is said, with its path.

Every mapping is a `Part`; a reader takes the keys it knows, and `finish` names the rest. So a field that Kubernetes
gets tomorrow is named too, and nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from siflow_provider.errors import Problem
from siflow_provider.spec.document import join

__all__ = ["Field", "Fields", "Notes", "Part", "Placeholder", "as_text"]


@dataclass(frozen=True, slots=True)
class Field:
    """A value of the form, and where in the manifest it was found."""

    value: Any
    path: str


Fields = dict[tuple[str, ...], Field]
"""Path in the form, such as `("env", "A")` or `("volumes", "/mnt/data")` -> the value."""


class Placeholder(str):
    """A template in place of what the manifest does not say; whoever uses the form fills it in."""

    __slots__ = ()


class Notes:
    """What could not be carried, in the order in which it was found, each once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def say(self, path: str, why: str) -> None:
        """Note that the field at `path` was not carried, or not as it stands, and why."""
        self._found[Problem(path, why)] = None

    @property
    def found(self) -> tuple[Problem, ...]:
        """All notes."""
        return tuple(self._found)


def as_text(value: Any) -> str:
    """Return a scalar as Kubernetes reads it where text is asked for."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class Part:
    """A mapping of the manifest, read key by key.

    Args:
        data: the mapping; anything else is noted and read as an empty one.
        path: where it stands.
        notes: where the rest is said.
    """

    def __init__(self, data: Any, path: str, notes: Notes) -> None:
        self.path, self.notes = path, notes
        if data is not None and not isinstance(data, Mapping):
            notes.say(path, "is no mapping, so nothing of it can be read")
        self._left: dict[str, Any] = {str(key): value for key, value in data.items()} if _is_map(data) else {}

    def __contains__(self, key: object) -> bool:
        return self._left.get(str(key)) is not None

    def at(self, key: str | int) -> str:
        """Return the path of a key."""
        return join(self.path, key)

    def peek(self, key: str) -> Any:
        """Return the value of a key and leave it to be read."""
        return self._left.get(key)

    def only_key(self) -> str:
        """Return the first key that is left, "" where none is: which of several kinds a mapping describes."""
        return next(iter(self._left), "")

    def take(self, key: str) -> Any:
        """Return the value of a key as it stands, None where there is none."""
        return self._left.pop(key, None)

    def text(self, key: str) -> str | None:
        """Return a scalar as text; anything else is noted."""
        value = self.take(key)
        if isinstance(value, Mapping | list):
            self.notes.say(self.at(key), "is no text, so it can't be read")
            return None
        return None if value is None else as_text(value)

    def number(self, key: str) -> int | None:
        """Return a whole number, 0 or more; anything else is noted."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.notes.say(self.at(key), f"{as_text(value)!r} is no whole number, so it can't be read")
            return None
        return value

    def part(self, key: str) -> Part:
        """Return the mapping at a key; an empty one where there is none."""
        return Part(self.take(key), self.at(key), self.notes)

    def parts(self, key: str) -> list[Part]:
        """Return the mappings of the list at a key; a null is no item, but has its number."""
        items = enumerate(self.items(key))
        return [Part(item, join(self.at(key), index), self.notes) for index, item in items if item is not None]

    def items(self, key: str) -> list[Any]:
        """Return the list at a key; an empty one where there is none."""
        value = self.take(key)
        if value is not None and not isinstance(value, list):
            self.notes.say(self.at(key), "is no list, so nothing of it can be read")
            return []
        return value or []

    def texts(self, key: str) -> dict[str, str]:
        """Return the mapping of text to text at a key."""
        part = self.part(key)
        found = {name: part.text(name) for name in list(part._left)}
        return {name: value for name, value in found.items() if value is not None}

    def skip(self, *keys: str) -> None:
        """Pass over keys that say nothing that a form would have to carry."""
        for key in keys:
            self.take(key)

    def drop(self, key: str, why: str, *, fine: Collection[Any] = ()) -> None:
        """Note that a key is not carried, unless its value is one of `fine`, which the provider does by itself."""
        value = self.take(key)
        if value is not None and not any(value == other for other in fine):
            self.notes.say(self.at(key), why)

    def keep(self, *keys: str) -> dict[str, Any]:
        """Return those of the keys that are there, as they stand: for a patch."""
        found = {key: self.take(key) for key in keys}
        return {key: value for key, value in found.items() if value not in (None, {}, [])}

    def finish(self, why: str = "the form has no field for it") -> None:
        """Note every key that is left."""
        for key in list(self._left):
            if self.take(key) not in (None, {}, []):
                self.notes.say(self.at(key), why)


def _is_map(data: Any) -> bool:
    return isinstance(data, Mapping)
