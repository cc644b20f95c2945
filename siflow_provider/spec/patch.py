"""What a merge patch on the rendered object may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationInfo

from siflow_provider.spec.base import Mode
from siflow_provider.spec.plain_data import plain_faults
from siflow_provider.spec.wrongs import Wrongs

__all__ = ["checked_patch"]

_OURS = {
    ("apiVersion",): "the kind of object decides it",
    ("kind",): "the form's `kind` decides it",
    ("status",): "the cluster writes it",
    ("metadata", "name"): "it identifies the run; use `name_prefix`",
    ("metadata", "namespace"): "the project group decides it",
    ("metadata", "uid"): "the cluster writes it",
    ("metadata", "ownerReferences"): "it would let somebody else delete the run",
}


def checked_patch(patch: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Return the patch when it is plain data and leaves alone what identifies the run.

    Raises:
        ValueError: it does not; every problem is named.
    """
    mode = info.context if isinstance(info.context, Mode) else Mode()
    wrongs = [(f".{'.'.join(path)}", f"may not be patched: {why}") for path, why in _OURS.items() if _has(patch, path)]
    wrongs.extend(plain_faults(patch, mode))
    if wrongs:
        raise Wrongs(wrongs)
    return patch


def _has(patch: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(patch, Mapping) or part not in patch:
            return False
        patch = patch[part]
    return True
