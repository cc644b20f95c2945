"""Lists and mappings: what stands for one when Airflow has rendered a template to text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BeforeValidator

from siflow_provider.spec.base import Form
from siflow_provider.spec.document import MISFITS
from siflow_provider.spec.wording import kind_of
from siflow_provider.spec.wrongs import Wrong

__all__ = ["NAME_OR_MAPPING", "STRUCTURE", "structured"]

_LONGEST = 1_000_000


def structured(value: Any) -> Any:
    """Return a mapping as a dict, and the list or mapping that a rendered text such as `['a', 'b']` spells.

    Airflow renders `"{{ params.instances }}"` to the text of a Python list; it is read back here, so that a template
    may stand for a whole list without native rendering. Any other value is returned as it is.
    """
    if isinstance(value, Form):
        return dict(value)
    if isinstance(value, Mapping):
        return value if isinstance(value, dict) else dict(value)
    if isinstance(value, set | frozenset | Iterator):
        raise Wrong(f"must be a list or a mapping, not {kind_of(value)}, whose order or content does not last")
    if isinstance(value, str) and value.strip()[:1] in {"[", "{"} and len(value) < _LONGEST:
        return _spelled(value.strip())
    return value


def _spelled(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        pass_on = text
    try:
        return yaml.safe_load(pass_on)
    except (yaml.YAMLError, *MISFITS, RecursionError):
        return text


def _mapping_or_text(value: Any) -> Any:
    read = structured(value)
    return value if isinstance(value, str) and not isinstance(read, dict) else read


STRUCTURE = BeforeValidator(structured)
"""Annotates a field that holds a list or a mapping."""
NAME_OR_MAPPING = BeforeValidator(_mapping_or_text)
"""Annotates a field that holds a name or a mapping."""
