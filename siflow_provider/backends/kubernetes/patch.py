"""The author's merge patch on the rendered job object (RFC 7396)."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.identity import LABEL_PREFIX

__all__ = ["apply_patch", "protected_paths"]

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
    """Return the paths of a patch that would take from the job the marks by which it is found again.

    The form refuses by itself what a patch may never name (`kind`, `metadata.name`, ...); here is what only rendering
    knows: our own labels and annotations, and a mapping that is replaced or removed with them inside.
    """
    metadata = patch.get("metadata", {})
    if not isinstance(metadata, dict):
        return ["metadata"]
    found = []
    for marks in _MARKS:
        value = metadata.get(marks, {})
        if not isinstance(value, dict):
            found.append(f"metadata.{marks}")
        else:
            found += [f"metadata.{marks}[{key}]" for key in value if key.startswith(LABEL_PREFIX)]
    return found
