"""The scalar types of the form: what each accepts (rendered text included) and the rule it names when it refuses.

Airflow renders to text, so whole numbers also come as digits and true/false as words. A validator here raises
ValueError with the whole sentence for the user; `siflow_provider.spec.problems` adds the path.
"""

from __future__ import annotations

import re
from datetime import timedelta
from numbers import Integral
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainValidator, WithJsonSchema

from siflow_provider.spec.duration import parse_duration
from siflow_provider.spec.quantity import parse_quantity
from siflow_provider.spec.wording import kind_of, none_of, quote, unfit
from siflow_provider.spec.wrongs import Wrong

__all__ = [
    "Count",
    "Flag",
    "MarkValue",
    "NonNegativeSeconds",
    "Positive",
    "PositiveSeconds",
    "Quantity",
    "Text",
    "Version",
    "at_least",
    "choice",
    "text",
    "whole",
]

_LARGEST = 10**9
_DIGITS = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def whole(value: Any) -> int:
    """Return a whole number: an int, or the text of one. 1.5, 2.0 and true are none."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise Wrong(f"{quote(value)} is not a whole number")
    number = int(value)
    if abs(number) > _LARGEST:
        raise Wrong(f"{quote(number)} is too large; at most {_LARGEST}")
    return number


def flag(value: Any) -> bool:
    """Return true or false: a boolean, or the text of one."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise Wrong(f"{quote(value)} is neither true nor false")


def text(value: Any) -> str:
    """Return text; a number is refused, since YAML may have changed how it was written."""
    if not isinstance(value, str):
        if isinstance(value, int | float):
            raise Wrong(f"must be text, not {kind_of(value)} ({quote(value)}); write it in quotes")
        raise Wrong(f"must be text, not {kind_of(value)}")
    if unfit(value):
        raise Wrong("the text holds a NUL or half a character, which no program can be given")
    return str(value)


def _filled(value: str) -> str:
    if not value.strip():
        raise Wrong("must not be blank")
    return value


def _mark(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return text(quote(value))
    return text(value)


def _version(value: Any) -> str:
    return _filled(_mark(value))


def at_least(least: int, why: str = "") -> BeforeValidator:
    """Return a validator for whole numbers from `least` on."""

    def check(value: Any) -> int:
        number = whole(value)
        if number < least:
            raise Wrong(f"{quote(number)} is too small; at least {least}{why}")
        return number

    return BeforeValidator(check)


def choice(*words: str) -> BeforeValidator:
    """Return a validator for one of `words`, which names the nearest of them."""

    def check(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return str(value)
        raise Wrong(none_of(value, words))

    return BeforeValidator(check)


def _seconds(*, zero: bool) -> PlainValidator:
    def check(value: Any) -> float:
        shown = f"a timedelta of {value.total_seconds():g}s" if isinstance(value, timedelta) else quote(value)
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            raise Wrong(f"{shown} is no duration: {error}") from None
        if seconds < 0 or (seconds == 0 and not zero):
            rule = "0 or more" if zero else "more than 0; leave the field out for no limit"
            raise Wrong(f"{shown} is not allowed; a length of time here is {rule}")
        return seconds

    return PlainValidator(check)


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Wrong(f"{quote(value)} is not a quantity; write a number with an optional unit, such as 500m, 4, 16Gi")
    if parse_quantity(value) <= 0:
        raise Wrong(f"{quote(value)} is not more than 0")
    return str(value).strip()


_NUMBER_OR_TEXT = {"anyOf": [{"type": "number"}, {"type": "string"}]}
Text = Annotated[str, BeforeValidator(text)]
"""Any text without NUL."""
Filled = Annotated[str, BeforeValidator(text), AfterValidator(_filled)]
"""Text that is not blank."""
_TEXT_OR_WHOLE = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
MarkValue = Annotated[str, BeforeValidator(_mark), WithJsonSchema(_TEXT_OR_WHOLE)]
"""Value of a label or annotation: text, which may be empty; a whole number is taken as its digits."""
Version = Annotated[str, BeforeValidator(_version), WithJsonSchema(_TEXT_OR_WHOLE)]
"""Text; a whole number is taken as its digits (2.60 is refused: YAML reads it as 2.6)."""
Flag = Annotated[bool, BeforeValidator(flag)]
"""True or false."""
Count = Annotated[int, at_least(0), WithJsonSchema({"type": "integer", "minimum": 0})]
"""A whole number from 0 on."""
Positive = Annotated[int, at_least(1), WithJsonSchema({"type": "integer", "minimum": 1})]
"""A whole number from 1 on."""
PositiveSeconds = Annotated[float, _seconds(zero=False), WithJsonSchema(_NUMBER_OR_TEXT)]
"""A length of time in seconds, more than 0."""
NonNegativeSeconds = Annotated[float, _seconds(zero=True), WithJsonSchema(_NUMBER_OR_TEXT)]
"""A length of time in seconds, 0 allowed."""
Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema(_NUMBER_OR_TEXT)]
"""A Kubernetes quantity of more than 0, as text."""


def _port(value: Any) -> int:
    number = whole(value)
    if not 1 <= number <= _LAST_PORT:
        raise Wrong(f"{quote(number)} is no port; 1 to {_LAST_PORT}")
    return number


_LAST_PORT = 65535
Port = Annotated[int, BeforeValidator(_port), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535})]
"""A port number."""
