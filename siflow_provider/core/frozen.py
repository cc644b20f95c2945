"""The base of what crosses Airflow's database: JSON types only, frozen, read by another version of us too."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

__all__ = ["Frozen"]

_UNFIT = re.compile("[\0\ud800-\udfff]")


class Frozen(BaseModel):
    """A record that is made once and compared by value.

    Keys that this version does not know are left out: while an upgrade goes on, workers and triggerers differ.

    A NUL and half a character, which a training may print, become U+FFFD: PostgreSQL takes neither in JSON, and of an
    event that can't be stored the whole triggerer dies, and again after each restart (source: Airflow 3.3.2
    `airflow/jobs/triggerer_job_runner.py`, handle_events).

    Example:
        >>> class Place(Frozen):
        ...     node: str
        >>> Place(node="a") == Place.model_validate({"node": "a"})
        True
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, given: Any) -> Any:
        return _storable(given)


def _storable(value: Any) -> Any:
    if type(value) is str:
        return _UNFIT.sub("\ufffd", value)
    if type(value) is dict:
        return {_storable(key): _storable(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_storable(item) for item in value)
    return value
