"""What differs between two forms, field by field; hidden values only as changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from siflow_provider.spec.document import join
from siflow_provider.spec.hidden import MASK, Hidden
from siflow_provider.spec.task import Task
from siflow_provider.spec.writing import to_fields

__all__ = ["Change", "diff"]


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: the field, such as `compute.instances[0]`.
        old: the old value as plain data; None when it was not there; `***` for a hidden one.
        new: the new value, likewise.
    """

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        if self.old == MASK and self.new == MASK:
            return f"{self.path}: changed (hidden)"
        return f"{self.path}: {_shown(self.old)} -> {_shown(self.new)}"


def diff(old: Task, new: Task) -> list[Change]:
    """Return every field that differs, in the form's order; a default left out equals one written out."""
    return list(_changes("", to_fields(old), to_fields(new)))


def _changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(join(path, str(key)), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _changes(join(path, index), _at(old, index), _at(new, index))
    elif type(old) is not type(new) or old != new:
        yield Change(path, _masked(old), _masked(new))


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _masked(value: Any) -> Any:
    if isinstance(value, Hidden):
        return MASK
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value


def _shown(value: Any) -> str:
    return "(not set)" if value is None else repr(value) if isinstance(value, str) else str(value)
