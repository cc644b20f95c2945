"""Templates that stand for a whole section: what nobody can look up or show before Airflow has rendered them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import Form, is_template

__all__ = ["template_sections"]

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
