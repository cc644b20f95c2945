"""The error tree drawn at the top of `errors.py` is the tree that exists."""

from __future__ import annotations

import re

from siflow_provider import errors


def drawn() -> dict[str, str | None]:
    """Return each drawn error's parent: the nearest one above that stands further left."""
    above: list[tuple[int, str]] = []
    found: dict[str, str | None] = {}
    for line in re.finditer(r"^( {4}[ │├└─]*)([A-Z]\w+)(?: {2,}|$)", errors.__doc__ or "", re.MULTILINE):
        depth, name = len(line[1]), line[2]
        above = [one for one in above if one[0] < depth]
        found[name] = above[-1][1] if above else None
        above.append((depth, name))
    return found


def test_the_drawn_tree_is_the_real_tree() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    real = {kind.__name__: kind.__base__ and kind.__base__.__name__ for kind in kinds}
    assert drawn() == {**real, "SiflowError": None}
    assert [kind.__name__ for kind in kinds if not kind.__doc__] == []


def test_every_error_catches_as_siflow_error() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(kind, errors.SiflowError) for kind in kinds)
    assert len(kinds) >= 10
