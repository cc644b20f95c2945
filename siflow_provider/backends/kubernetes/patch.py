"""The author's merge patch on the rendered job object (RFC 7396)."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.core.merge_patch import apply_patch

__all__ = ["apply_patch", "protected_paths"]

_MARKS = ("labels", "annotations")


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
