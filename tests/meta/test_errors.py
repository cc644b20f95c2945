"""The error tree drawn at the top of `errors.py` is the tree that exists."""

from __future__ import annotations

import re

from siflow_provider import errors


def test_the_drawn_tree_is_the_real_tree() -> None:
    drawn = re.findall(r"^[ │├└─]*(\w+)(?: {2,}|$)", errors.__doc__ or "", re.MULTILINE)
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    real = [kind.__name__ for kind in kinds if issubclass(kind, errors.SiflowError)]
    assert set(real) <= set(drawn)
    for name in real:
        assert getattr(errors, name).__doc__


def test_every_error_catches_as_siflow_error() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(kind, errors.SiflowError) for kind in kinds)
    assert len(kinds) >= 10
