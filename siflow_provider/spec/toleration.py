"""A toleration as Kubernetes writes it (source: Kubernetes API, core/v1 Toleration)."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, ValidationInfo

from siflow_provider.spec.base import Mode, is_unknown
from siflow_provider.spec.containers import STRUCTURE
from siflow_provider.spec.wording import kind_of, none_of, quote, suggest
from siflow_provider.spec.wrongs import Wrongs

__all__ = ["Toleration"]

_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
_WORDS = {"operator": ("Exists", "Equal"), "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute")}


def _checked(value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    mode = info.context if isinstance(info.context, Mode) else Mode()
    wrongs = [(f".{key}", f"unknown key; {suggest(key, _KEYS)}") for key in value if key not in _KEYS]
    for key in _KEYS[:4]:
        wrongs.extend(_word_faults(key, value.get(key), mode))
    seconds = value.get("tolerationSeconds")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)) and not is_unknown(seconds):
        wrongs.append((".tolerationSeconds", f"{quote(seconds)} is not a whole number"))
    if value.get("operator") == "Exists" and value.get("value"):
        wrongs.append((".value", "must be left out with operator Exists"))
    if wrongs:
        raise Wrongs(wrongs)
    return value


def _word_faults(key: str, value: Any, mode: Mode) -> list[tuple[str, str]]:
    if value is None or (mode.templates and is_unknown(value)):
        return []
    if not isinstance(value, str):
        return [(f".{key}", f"must be text, not {kind_of(value)}; write it in quotes")]
    words = _WORDS.get(key)
    if words and value not in words:
        return [(f".{key}", none_of(value, words))]
    return []


Toleration: TypeAlias = Annotated[dict[str, Any], STRUCTURE, AfterValidator(_checked)]
"""key, operator, value, effect, tolerationSeconds."""
