"""The form's `env`: names that may be set, values as text, and hidden values that stay hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from numbers import Number
from typing import Any

from pydantic import ValidationInfo

from siflow_provider.errors import Problem
from siflow_provider.spec.base import Mode, Template, is_template, mode_of, plain_text
from siflow_provider.spec.hidden import MASK, Hidden
from siflow_provider.spec.wording import kind_of, nearest, unfit
from siflow_provider.spec.wrongs import Wrong, Wrongs

__all__ = ["ENV_SCHEMA", "env_text", "parse_env"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SHORTEST_MASKED = 5
_SCALARS = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
ENV_SCHEMA: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"pattern": r"^[A-Za-z_][A-Za-z0-9_]*$"},
    "additionalProperties": {
        "anyOf": [
            *_SCALARS,
            {
                "type": "object",
                "properties": {"value": {"anyOf": _SCALARS}, "hidden": {"type": "boolean"}},
                "required": ["value"],
                "additionalProperties": False,
            },
        ]
    },
}
"""JSON Schema of `env`."""
_FORMS = "text, a number, true/false or {value: ..., hidden: true}"


def env_text(value: Any) -> str:
    """Return an environment value as text: `true` for True, numbers without loss.

    Raises:
        ValueError: null, a date, a list, a mapping, or text that no process can be given. Never quotes the value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        try:
            return str(value)
        except ValueError:
            raise Wrong("the number is too long; write it in quotes") from None
    if isinstance(value, str):
        if unfit(value):
            raise Wrong("the text holds a NUL or half a character, which no environment can hold")
        return plain_text(value)
    if value is None:
        raise Wrong('null is no value; leave the name out, or write "" for an empty one')
    if isinstance(value, date):
        raise Wrong("YAML reads the value as a date; write it in quotes")
    raise Wrong(f"{kind_of(value)} is no value; write {_FORMS}")


def parse_env(value: Any, info: ValidationInfo) -> dict[str, str | Hidden]:
    """Validate a whole `env`; every wrong entry is reported, by its name and never with its value."""
    if not isinstance(value, Mapping):
        raise Wrong(f"must be a mapping of name: value, not {kind_of(value)}")
    mode = mode_of(info)
    wrongs: list[tuple[str, str]] = []
    out: dict[str, str | Hidden] = {}
    for name, entry in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            wrongs.append((f".{name}" if isinstance(name, str) else "", _name_rule(name)))
            continue
        try:
            out[name] = _entry(entry, mode, f"env.{name}")
        except Wrong as error:
            found = error.found if isinstance(error, Wrongs) else [("", str(error))]
            wrongs.extend((f".{name}{path}", message) for path, message in found)
            out[name] = ""  # a rule reads the name alone
    if wrongs:
        raise Wrongs(wrongs, kept=out)
    return out


def _name_rule(name: object) -> str:
    if not isinstance(name, str):
        return f"an environment name must be text, not {kind_of(name)}; write it in quotes"
    mended = re.sub(r"[^A-Za-z0-9_]", "_", name)
    mended = f"_{mended}" if mended[:1].isdigit() or not mended else mended
    rule = "an environment name has letters, digits and _ only, and no digit first"
    return f"{rule}; did you mean {mended!r}?"


def _entry(entry: Any, mode: Mode, path: str) -> str | Hidden:
    if isinstance(entry, Hidden):
        return _hidden(entry, mode, path)
    if not isinstance(entry, Mapping):
        given: str | Hidden = _value(entry, mode)
        return given
    unknown = [key for key in entry if key not in {"value", "hidden"}]
    if unknown:
        raise Wrongs([_unknown_key(key) for key in unknown])
    if "value" not in entry:
        raise Wrongs([(".value", "is required beside `hidden`")])
    hidden = entry.get("hidden", False)
    if isinstance(hidden, str) and hidden.strip().lower() in {"true", "false"}:
        hidden = hidden.strip().lower() == "true"
    if not isinstance(hidden, bool):
        raise Wrongs([(".hidden", "must be true or false, written out: it decides what may be shown")])
    if hidden:
        return _hidden(entry["value"], mode, path)
    plain: str | Hidden = _value(entry["value"], mode)
    return plain


def _unknown_key(key: Any) -> tuple[str, str]:
    """Return path and message; a key that is not nearly a right one is not shown: `{value:secret}` is one key."""
    found = nearest(key, ("value", "hidden"))
    if found is not None and key.isidentifier():
        return f".{key}", f"unknown key; did you mean {found!r}?"
    return "", "has a key beside `value` and `hidden`, the only two; is a blank missing after a colon?"


def _hidden(value: Any, mode: Mode, path: str) -> Hidden:
    inner = value.value if isinstance(value, Hidden) else value
    while isinstance(inner, Hidden):
        inner = inner.value
    text = _value(inner, mode)
    if isinstance(text, str) and text.strip() == MASK:
        raise Wrong(
            f"{MASK} is the mask that is shown for a hidden value, and no value; write the value itself, "
            "or a template such as {{ var.value.token }}"
        )
    if isinstance(text, str) and not is_template(text) and len(text) < _SHORTEST_MASKED:
        message = f"a hidden value under {_SHORTEST_MASKED} characters can't be masked in logs; use a longer one"
        mode.warnings.append(Problem(path, message))
    return value if isinstance(value, Hidden) and value.value is text else Hidden(text)


def _value(value: Any, mode: Mode) -> Any:
    if isinstance(value, Hidden):
        return value
    if isinstance(value, str):
        value = plain_text(value)
        if mode.templates and is_template(value):
            return Template(value)
        mode.refuse_left_over(value)
    elif not isinstance(value, Mapping) and mode.is_open(value):
        return value
    return env_text(value)
