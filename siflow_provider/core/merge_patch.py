"""RFC 7396: how a merge patch changes a JSON value."""

from __future__ import annotations

from typing import Any

__all__ = ["apply_patch"]


def apply_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` merged in: mappings key by key, null removes, anything else replaces.

    source: RFC 7396, section 2

    Example:
        >>> apply_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}})
        {'a': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_patch(merged.get(key), value)
    return merged
