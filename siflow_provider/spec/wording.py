"""How messages name a wrong value, the nearest right one, and the choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from siflow_provider.spec.hidden import MASK, Hidden

__all__ = ["kind_of", "listed", "nearest", "none_of", "quote", "suggest", "unfit"]

_LONGEST = 60
_MOST = 10
_KINDS: tuple[tuple[Any, str], ...] = (
    (str, "text"),
    (int | float, "a number"),
    (Mapping | BaseModel, "a mapping"),
    (list | tuple, "a list"),
)


def unfit(text: str) -> bool:
    """Say whether no program can be given the text: it holds a NUL or half a character (a lone surrogate)."""
    if text.isascii():
        return "\0" in text
    return any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


def quote(value: Any) -> str:
    """Return a scalar as a message shows it, cut to a readable length; anything else by its kind alone.

    What is inside a mapping or a list is never shown: a hidden value may be among it.
    """
    if isinstance(value, Hidden):
        return MASK
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str | int | float):
        return kind_of(value)
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # an int of more than 4300 digits
        return "a huge number"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def kind_of(value: Any) -> str:
    """Return what a value is, in the words of YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true/false"
    return next((word for types, word in _KINDS if isinstance(value, types)), f"a {type(value).__name__}")


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice that is most like `word`; None when none is near."""
    if not isinstance(word, str):
        return None
    known = {choice.casefold(): choice for choice in choices}
    found = get_close_matches(word[:200].casefold(), known, n=1, cutoff=0.6)
    return known[found[0]] if found else None


def listed(choices: Iterable[str]) -> str:
    """Return the choices in one line, ten at most."""
    names = list(choices)
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more if names else "none"


def suggest(word: object, choices: Iterable[str], *, what: str = "choices") -> str:
    """Return the nearest choice as a question; where none is near, all choices.

    Example:
        >>> suggest("hihg", ["high", "medium", "low"]), suggest("x", ["high", "low"])
        ("did you mean 'high'?", 'choices: high, low')
    """
    names = list(choices)
    found = nearest(word, names)
    return f"did you mean {found!r}?" if found is not None else f"{what}: {listed(names)}"


def none_of(value: object, choices: Iterable[str]) -> str:
    """Return the whole refusal of a value that is none of a fixed set.

    Example:
        >>> none_of("hihg", ["high", "low"])
        "'hihg' is none of high, low; did you mean 'high'?"
    """
    names = list(choices)
    found = nearest(value, names)
    hint = f"; did you mean {found!r}?" if found is not None else ""
    return f"{quote(value)} is none of {listed(names)}{hint}"
