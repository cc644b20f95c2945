"""The base of every model of the form: frozen, and unknown keys are errors."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Form", "Template", "is_template"]


class Form(BaseModel):
    """A part of the form. Frozen: a task does not change once it is validated."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Template(str):
    """An Airflow template that stands where a value will stand after rendering.

    Before rendering a model may hold one in any scalar place, whatever the field's type says; code that computes with
    a field asks `is_template` first, and everything that submits works on a rendered task, which holds none.
    """

    __slots__ = ()


def is_template(value: object) -> bool:
    """Say whether `value` is text that Airflow would render (`{{ }}`, `{% %}` or `{# #}`)."""
    return isinstance(value, str) and any(mark in value for mark in ("{{", "{%", "{#"))
