"""The base of every model of the form: frozen, unknown keys refused, templates let through where they may stand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

if TYPE_CHECKING:
    from siflow_provider.errors import Problem

__all__ = ["Form", "Mode", "Template", "is_template", "is_unknown", "left_over", "passed", "plain_text"]

_LEFT_OVER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)


class Template(str):
    """An Airflow template that stands where a value will stand after rendering.

    Before rendering a model may hold one in any scalar place, whatever the field's type says; code that computes with
    a field asks `is_template` first, and everything that submits works on a rendered task, which holds none.
    """

    __slots__ = ()


def is_template(value: object) -> bool:
    """Say whether `value` is text that Airflow would render (`{{ }}`, `{% %}` or `{# #}`)."""
    return isinstance(value, str) and "{" in value and ("{{" in value or "{%" in value or "{#" in value)


def left_over(text: str) -> bool:
    """Say whether a rendered text still holds a whole template; bash's `${#list[@]}` is none."""
    return "{" in text and _LEFT_OVER.search(text) is not None


def is_unknown(value: object) -> bool:
    """Say whether `value` is known only after rendering: a template, or an object that Airflow resolves (XComArg)."""
    if isinstance(value, str):
        return is_template(value)
    if isinstance(value, _PLAIN) or value is None:
        return False
    return hasattr(value, "resolve") and not isinstance(value, os.PathLike)


@dataclass(slots=True)
class Mode:
    """How a form is being validated, handed to every validator as pydantic's context.

    Attributes:
        templates: templates may stand where values will (a DAG file is being parsed).
        rendered: Airflow has rendered the texts, so braces left in free text are the author's own.
        warnings: what is doubtful, found on the way.
    """

    templates: bool = True
    rendered: bool = False
    warnings: list[Problem] = field(default_factory=list)


def plain_text(value: str) -> str:
    """Return the text of any kind of str: that of an enum's member is its value and not its name."""
    return value if type(value) is str else str.__str__(value)


def passed(value: Any, info: ValidationInfo) -> tuple[bool, Any]:
    """Return whether `value` is to be kept unchecked, and the value in the shape that validators expect.

    Raises:
        ValueError: a template stands where rendering is over.
    """
    mode: Mode = info.context if isinstance(info.context, Mode) else _DIRECT
    if isinstance(value, str):
        value = plain_text(value)
        if mode.templates:
            return (True, Template(value)) if is_template(value) else (False, value)
        if not mode.rendered and left_over(value):
            raise ValueError("the template is not rendered; only Airflow renders templates, so write the value itself")
        return False, value
    if isinstance(value, dict | list | int | float):
        return False, value
    if isinstance(value, Form | Mapping):
        return False, dict(value)
    return mode.templates and is_unknown(value), value


_DIRECT = Mode()


class Form(BaseModel):
    """A part of the form. Frozen: a task does not change once it is validated."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True, validate_default=False
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {name: value for name, value in data.items() if value is not None}
        return data

    @field_validator("*", mode="wrap")
    @classmethod
    def _templates_pass(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        keep, value = passed(value, info)
        return value if keep else handler(value)


_PLAIN = (bool, int, float, dict, list, tuple, BaseModel)


def _item(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    keep, value = passed(value, info)
    return value if keep else handler(value)


ITEM = WrapValidator(_item)
"""Annotates the items of lists and mappings, which the wrap of whole fields does not reach."""
