"""How a validator refuses: with a sentence for the user, or with several, each for its own place."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Wrong", "Wrongs"]


class Wrong(ValueError):
    """The value is wrong (or of the wrong type: pydantic collects ValueErrors only); the text says it to the user."""


class Wrongs(Wrong):
    """Problems below the validated value: pairs of relative path and message.

    Example:
        raise Wrongs([(".type", "is required")])    # at `compute` this is about `compute.type`
    """

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(f"{path.lstrip('.')}: {message}" for path, message in self.found))
