"""Which templates must be gone before a task can be submitted, or shown, and which may stay as the text they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import Form, Template, is_template, is_unknown
from siflow_provider.spec.document import join
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.task import Task
from siflow_provider.spec.writing import to_fields

__all__ = ["deciding_templates", "template_sections"]

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


_SECTIONS = frozenset(
    {
        "labels", "env", "volumes", "datasets", "models", "compute", "nodes", "instances", "only", "exclude",
        "monitoring", "fault_tolerance", "retry_on", "alerts", "events", "to", "kubernetes", "patch", "node_selector",
        "tolerations", "annotations", "image_pull_secrets", "ray", "head", "shared_storage", "debug", "autoscaling",
    }
)  # fmt: skip
_OF_SECTIONS = frozenset({"volumes", "datasets", "models", "tolerations", "alerts"})


def template_sections(form: Form) -> list[Problem]:
    """Return one problem for each list or mapping of the form that is still one template; scalars may be templates."""
    return [
        Problem(path, "this whole section is a template; what it says is known only when Airflow has rendered it")
        for path in _walk(form, "")
    ]


def _walk(form: Form, path: str) -> Iterator[str]:
    for name in type(form).model_fields:
        yield from _look(getattr(form, name), name, f"{path}.{name}" if path else name)


def _look(value: Any, name: str, path: str) -> Iterator[str]:
    if isinstance(value, Form):
        yield from _walk(value, path)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            if isinstance(item, Form):
                yield from _walk(item, f"{path}[{index}]")
            elif name in _OF_SECTIONS and is_template(item):
                yield f"{path}[{index}]"
    elif name in _SECTIONS and is_template(value):
        yield path
