"""The base of what crosses Airflow's database: JSON types only, frozen, unknown keys refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Frozen"]


class Frozen(BaseModel):
    """A record that is made once and compared by value.

    Example:
        >>> class Place(Frozen):
        ...     node: str
        >>> Place(node="a") == Place.model_validate({"node": "a"})
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
