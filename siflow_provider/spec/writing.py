"""Write a task as plain data or YAML; hidden values masked unless they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from pydantic import BaseModel

from siflow_provider.spec.base import Form
from siflow_provider.spec.duration import format_duration
from siflow_provider.spec.hidden import MASK, Hidden
from siflow_provider.spec.task import Task

__all__ = ["dump", "to_data", "to_fields", "write_yaml"]

_SECONDS = (
    "queue_timeout",
    "start_timeout",
    "hang_timeout",
    "queued_too_long",
    "keep_seconds",
    "idle_timeout",
    "fallback_after",
)
_NUMBER_ELSEWHERE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|0o[0-7]+", re.ASCII)
_FIRST = ("kind", "type")


def to_data(task: Task, *, reveal: bool = False) -> dict[str, Any]:
    """Return the form as plain data (JSON types), in the form's order, defaults left out.

    Args:
        task: the task; templates stay as they are.
        reveal: write hidden values instead of `***`.
    """

    def show(hidden: Hidden) -> Any:
        return {"value": _plain(hidden.value, show) if reveal else MASK, "hidden": True}

    return _fields(task, show)


def to_fields(task: Task, *, templates: bool = False) -> dict[str, Any]:
    """Return the form as `to_data` does, but with `Hidden` objects kept: what an operator's attributes may hold.

    Args:
        task: the task.
        templates: keep `Template` as it is instead of plain text.
    """
    return _fields(task, lambda hidden: hidden, plain=not templates)


def dump(task: Task, *, reveal: bool = False) -> str:
    """Return the task as YAML that `load` reads back; hidden values masked unless `reveal`."""
    return write_yaml(to_data(task, reveal=reveal))


def write_yaml(data: Any) -> str:
    """Return plain data as YAML for people: in its own order, texts of several lines as blocks, no anchors."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1)
    return text


def _fields(form: Form, show: Callable[[Hidden], Any], *, plain: bool = True) -> dict[str, Any]:
    out: dict[str, Any] = {}
    fields = type(form).model_fields
    for name in sorted(fields, key=lambda name: name not in _FIRST):
        value = getattr(form, name)
        if name in _FIRST or value != fields[name].default:
            out[name] = _plain(format_duration(value) if _is_seconds(name, value) else value, show, plain=plain)
    return out


def _is_seconds(name: str, value: Any) -> bool:
    return name in _SECONDS and isinstance(value, float)


def _plain(value: Any, show: Callable[[Hidden], Any], *, plain: bool = True) -> Any:
    if isinstance(value, Hidden):
        return show(value)
    if isinstance(value, Form):
        return _fields(value, show, plain=plain)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(item, show, plain=plain) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, show, plain=plain) for item in value]
    return str(value) if plain and isinstance(value, str) else value


class _Dumper(yaml.SafeDumper):
    """Writes commands of several lines as blocks, and what Airflow will resolve as the text that stands for it."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts out; anchors help no reader of a form."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    lines = value.split("\n")
    if not all(line.isprintable() for line in lines):
        style = '"'  # tabs, and what YAML takes for line ends (U+0085, U+2028), survive only when escaped
    elif len(lines) > 1 and all(line == line.rstrip() for line in lines) and not value.startswith((" ", "\n")):
        style = "|"
    elif _NUMBER_ELSEWHERE.fullmatch(value):
        style = "'"  # 1e-4 is text to PyYAML and a number to readers of YAML 1.2
    else:
        style = None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _unresolved(dumper: yaml.SafeDumper, value: object) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value))


_Dumper.add_multi_representer(str, _text)  # templates as well
_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(object, _unresolved)
