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

from siflow_provider.spec.wrongs import Wrong

if TYPE_CHECKING:
    from siflow_provider.errors import Problem

__all__ = [
    "Data",
    "Form",
    "Mode",
    "Template",
    "is_template",
    "is_unknown",
    "known_items",
    "mode_of",
    "passed",
    "plain_text",
]

_LEFT_OVER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
"""A whole template; bash's `${#list[@]}` is none."""


class Template(str):
    """An Airflow template that stands where a value will stand after rendering.

    Before rendering a model may hold one in any scalar place, whatever the field's type says; code that computes with
    a field asks `is_template` first, and everything that submits works on a rendered task, which holds none.
    """

    __slots__ = ()


def is_template(value: object) -> bool:
    """Say whether `value` is text that Airflow would render (`{{ }}`, `{% %}` or `{# #}`)."""
    return isinstance(value, str) and "{" in value and ("{{" in value or "{%" in value or "{#" in value)


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

    def is_open(self, value: object) -> bool:
        """Say whether `value` may stand unchecked, since it is known only after rendering."""
        return self.templates and is_unknown(value)

    def refuse_left_over(self, text: str) -> None:
        """Raise Wrong when a template is left in a text although nobody will render it any more."""
        if not self.templates and not self.rendered and "{" in text and _LEFT_OVER.search(text) is not None:
            raise Wrong("the template is not rendered; only Airflow renders templates, so write the value itself")


def known_items(value: Any) -> list[tuple[int, Any]]:
    """Return the items of a list that are known, each with its index; nothing when the list is a template."""
    if value is None or is_unknown(value):
        return []
    return [(index, item) for index, item in enumerate(value) if not is_unknown(item)]


def mode_of(info: ValidationInfo) -> Mode:
    """Return the mode of the validation that runs; one of a model made in Python, which has none, by default."""
    return info.context if isinstance(info.context, Mode) else Mode()


def plain_text(value: str) -> str:
    """Return the text of any kind of str: that of an enum's member is its value and not its name."""
    return value if type(value) is str else str.__str__(value)


def passed(value: Any, info: ValidationInfo) -> tuple[bool, Any]:
    """Return whether `value` is to be kept unchecked, and the value in the shape that validators expect.

    Raises:
        ValueError: a template stands where rendering is over.
    """
    mode = mode_of(info)
    if isinstance(value, str):
        value = plain_text(value)
        if mode.templates:
            return (True, Template(value)) if is_template(value) else (False, value)
        mode.refuse_left_over(value)
        return False, value
    if isinstance(value, dict | list | int | float):
        return False, value
    if isinstance(value, Form | Mapping):
        return False, dict(value)
    return mode.is_open(value), value


class Data(BaseModel):
    """A mapping that people write: frozen, unknown keys refused, null the same as left out."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {name: value for name, value in data.items() if value is not None}
        return data


class Form(Data):
    """A part of the form, in which a template may stand for every value."""

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
