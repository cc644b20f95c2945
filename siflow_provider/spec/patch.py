"""What a merge patch on the rendered object may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationInfo

from siflow_provider.spec.base import Mode, is_unknown, left_over
from siflow_provider.spec.wording import kind_of
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
_DEEPEST = 50


def checked_patch(patch: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Return the patch when it is plain data and leaves alone what identifies the run.

    Raises:
        ValueError: it does not; every problem is named.
    """
    mode = info.context if isinstance(info.context, Mode) else Mode()
    wrongs = [(f".{'.'.join(path)}", f"may not be patched: {why}") for path, why in _OURS.items() if _has(patch, path)]
    wrongs.extend(_faults(patch, mode, "", 0))
    if wrongs:
        raise Wrongs(wrongs)
    return patch


def _has(patch: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(patch, Mapping) or part not in patch:
            return False
        patch = patch[part]
    return True


def _faults(value: Any, mode: Mode, path: str, depth: int) -> list[tuple[str, str]]:
    if depth > _DEEPEST:
        return [("", "is nested too deeply")]
    if isinstance(value, Mapping):
        out = [(path, f"keys must be text, not {kind_of(key)}") for key in value if not isinstance(key, str)]
        for key, item in value.items():
            out.extend(_faults(item, mode, f"{path}.{key}", depth + 1))
        return out
    if isinstance(value, list | tuple):
        return [fault for n, item in enumerate(value) for fault in _faults(item, mode, f"{path}[{n}]", depth + 1)]
    return _scalar_faults(value, mode, path)


def _scalar_faults(value: Any, mode: Mode, path: str) -> list[tuple[str, str]]:
    if isinstance(value, str):
        if not mode.templates and not mode.rendered and left_over(value):
            return [(path, "the template is not rendered; only Airflow renders templates, so write the value itself")]
        return []
    if value is None or isinstance(value, bool | int | float) or (mode.templates and is_unknown(value)):
        return []
    return [(path, f"{kind_of(value)} can't be sent; write text, numbers, true/false, lists and mappings")]
