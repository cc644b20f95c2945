"""A value that nobody may read: it prints `***` and only `reveal()` gives it away.

Airflow renders an object by its `template_fields` and shows it by its `serialize()`, so that the serialized DAG and
the rendered view hold `***` while the value inside is still rendered (source: Airflow 3.3.2
`airflow/sdk/definitions/_internal/templater.py`). Airflow rewrites `value` in place when it renders: that is why this
is no frozen model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

__all__ = ["MASK", "Hidden"]

MASK = "***"


class Hidden:
    """A hidden environment value.

    Args:
        value: the value, or an Airflow template of it.

    Example:
        >>> Hidden("s3cr3t")
        Hidden(***)
    """

    template_fields: Sequence[str] = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def reveal(self) -> str:
        """Return the value itself: for the backend's own use, never for a log or a database."""
        return str(self.value)

    def serialize(self) -> str:
        """Return the mask: what Airflow stores and shows."""
        return MASK

    def __repr__(self) -> str:
        return f"Hidden({MASK})"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self.value == other.value

    def __hash__(self) -> int:
        return hash(("Hidden", str(self.value)))

    def __reduce__(self) -> tuple[type[Hidden], tuple[Any]]:
        return (Hidden, (self.value,))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda _: MASK, return_schema=core_schema.str_schema()
            ),
        )
