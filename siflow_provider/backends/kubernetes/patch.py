"""The author's merge patch on the rendered job object (RFC 7396)."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.identity import LABEL_PREFIX

__all__ = ["apply_patch", "protected_paths"]

_PROTECTED = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"), ("status",))
_MARKS = ("labels", "annotations")


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


def protected_paths(patch: dict[str, Any]) -> list[str]:
    """Return the paths of a patch that would change by which marks the job is found again; a patch may not."""
    found = [".".join(path) for path in _PROTECTED if _touches(patch, path)]
    metadata = patch.get("metadata", {})
    if isinstance(metadata, dict):
        for marks in _MARKS:
            value = metadata.get(marks, {})
            if not isinstance(value, dict):
                found.append(f"metadata.{marks}")
            else:
                found += [f"metadata.{marks}[{key}]" for key in value if str(key).startswith(LABEL_PREFIX)]
    return found


def _touches(patch: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(patch, dict):
            return True
        if key not in patch:
            return False
        patch = patch[key]
    return True
