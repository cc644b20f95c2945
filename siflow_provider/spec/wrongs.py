"""How a validator refuses: with a sentence for the user, or with several, each for its own place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Unknown", "Wrong", "Wrongs"]


class Unknown:
    """Stands for a wrong or missing value, so that the rules about the other values can still be checked."""

    resolve = None


class Wrong(ValueError):
    """The value is wrong (or of the wrong type: pydantic collects ValueErrors only); the text says it to the user."""


class Wrongs(Wrong):
    """Problems below the validated value: pairs of relative path and message.

    Attributes:
        found: the pairs.
        kept: the value with `Unknown` in the place of what is wrong; `Unknown` alone when no rule reads its parts.

    Example:
        raise Wrongs([(".type", "is required")])    # at `compute` this is about `compute.type`
    """

    def __init__(self, found: Iterable[tuple[str, str]], *, kept: Any = None) -> None:
        self.found = tuple(found)
        self.kept = Unknown() if kept is None else kept
        super().__init__("; ".join(f"{path.lstrip('.')}: {message}" for path, message in self.found))
