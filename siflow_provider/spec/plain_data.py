"""Data that is passed on as it is (a patch, Ray's runtime_env): plain, not too deep, and rendered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from siflow_provider.spec.base import Mode
from siflow_provider.spec.wording import kind_of, unfit
from siflow_provider.spec.wrongs import Wrong

__all__ = ["plain_faults"]

_DEEPEST = 50


def plain_faults(value: Any, mode: Mode, path: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """Return what can't be sent as JSON, each with its path; values are never quoted."""
    if depth > _DEEPEST:
        return [("", "is nested too deeply")]
    if isinstance(value, Mapping):
        out = [(path, f"keys must be text, not {kind_of(key)}") for key in value if not isinstance(key, str)]
        for key, item in value.items():
            out.extend(plain_faults(item, mode, f"{path}.{key}", depth + 1))
        return out
    if isinstance(value, list | tuple):
        return [fault for n, item in enumerate(value) for fault in plain_faults(item, mode, f"{path}[{n}]", depth + 1)]
    return _scalar_faults(value, mode, path)


def _scalar_faults(value: Any, mode: Mode, path: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        try:
            mode.refuse_left_over(value)
        except Wrong as error:
            return [(path, str(error))]
        return [(path, "the text holds a NUL or half a character")] if unfit(value) else []
    if isinstance(value, float) and not math.isfinite(value):
        return [(path, "infinity and not-a-number can't be sent; write a finite number")]
    if value is None or isinstance(value, bool | int | float) or mode.is_open(value):
        return []
    return [(path, f"{kind_of(value)} can't be sent; write text, numbers, true/false, lists and mappings")]
