"""Which templates must be gone before a task can be resolved, and which may stay as the text that they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import Template, is_unknown
from siflow_provider.spec.document import join
from siflow_provider.spec.dump import to_fields
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.task import Task

__all__ = ["deciding_templates"]

_FREE = re.compile(
    r"image|command|name_prefix|timezone|region|cluster|project_group|monitoring\.path"
    r"|env\.[^.]+|labels\..+|(volumes|datasets|models)\[\d+\]\.(mount_path|sub_path)"
    r"|alerts\[\d+\]\.(message|to\[\d+\])|compute\.nodes\.(only|exclude)\[\d+\]"
    r"|kubernetes\..+[.\[].+|kubernetes\.service_account|ray\.runtime_env\..+",
    re.DOTALL,
)
"""Paths of free text: it is passed on and decides nothing."""


def deciding_templates(task: Task) -> Iterator[Problem]:
    """Yield each template (or unresolved argument) on which something depends that is decided before submitting."""
    for path, value in _unknown("", to_fields(task, templates=True)):
        if not (isinstance(value, Template) and _FREE.fullmatch(path)):
            yield Problem(path, "must be rendered first: what is submitted depends on it")


def _unknown(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Hidden):
        yield from _unknown(path, value.value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown(join(path, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(join(path, index), item)
    elif isinstance(value, Template) or (not isinstance(value, str) and is_unknown(value)):
        yield path, value
