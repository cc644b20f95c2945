"""The base of what crosses Airflow's database: JSON types only, frozen, read by another version of us too."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Frozen"]


class Frozen(BaseModel):
    """A record that is made once and compared by value.

    Keys that this version does not know are left out: while an upgrade goes on, workers and triggerers differ.

    Example:
        >>> class Place(Frozen):
        ...     node: str
        >>> Place(node="a") == Place.model_validate({"node": "a"})
        True
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
