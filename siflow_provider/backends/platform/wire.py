"""The platform's own words: tasks, pods and instances as its API writes them, camelCase, unknown keys ignored.

source: the vendor's Python SDK 0.2.9, `types/task.py`, `types/instance.py`, `types/quota.py`. Hidden values never get
into these models: where the platform gives one back to its owner, it is dropped while it is read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WrapValidator, model_validator
from pydantic.alias_generators import to_camel

from siflow_provider.errors import BackendUnavailable

__all__ = ["Brief", "InstanceRow", "Pod", "QueueInfo", "TaskEnv", "UserQuota", "read_moment", "read_row", "read_tasks"]

_MILLISECONDS = 10_000_000_000
"""Numbers above this are no seconds since 1970: they would lie behind the year 2286."""
_EARLIEST_YEAR = 1971


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


def read_moment(value: Any) -> datetime | None:
    """Return a moment as the platform may write it; None for an empty or unreadable one.

    The format is not documented: ISO 8601 with or without a zone (UTC then), a blank in place of the T, seconds or
    milliseconds since 1970 are all read.

    Example:
        >>> read_moment("2026-01-02 03:04:05")
        datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, bool) or value in (None, "", 0, "0"):
        return None
    text = str(value).strip()
    try:
        if text.replace(".", "", 1).isdigit():
            number = float(text)
            return datetime.fromtimestamp(number / 1000 if number > _MILLISECONDS else number, UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None if moment.year < _EARLIEST_YEAR else moment.astimezone(UTC)  # Go writes 0001-01-01 for "never"


Moment = Annotated[datetime | None, BeforeValidator(read_moment)]
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value))]
Count = Annotated[int, BeforeValidator(lambda value: 0 if value is None else value)]


def _or_none(value: Any, read: Any) -> Any:
    try:
        return read(value)
    except ValidationError:
        return None


Lenient = WrapValidator(_or_none)
"""What is only shown: where a newer server writes it in another shape, the rest of the task is still read."""


class TaskEnv(_Wire):
    """One environment variable; a hidden one's value is never kept."""

    env_key: Text = ""
    env_value: Text = ""
    hide: Annotated[bool, BeforeValidator(bool)] = False

    @model_validator(mode="before")
    @classmethod
    def _without_secret(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("hide"):
            return {**data, "envValue": ""}
        return data


class Ahead(_Wire):
    """How many tasks are ahead, by priority."""

    high: Count = 0
    medium: Count = 0
    low: Count = 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.high + self.medium + self.low


class QueueInfo(_Wire):
    """Where a task stands in its pool's queue."""

    ahead_in_pool: Ahead = Ahead()


class Brief(_Wire):
    """A task as a listing shows it."""

    uuid: str
    name: Text = ""
    resource_pool: Text = ""
    status: Text = ""
    status_msg: Text = ""
    create_time: Moment = None
    update_time: Moment = None
    start_time: Moment = None
    end_time: Moment = None
    queue_info: Annotated[QueueInfo | None, Lenient] = None
    task_env: Annotated[tuple[TaskEnv, ...], BeforeValidator(lambda value: value or [])] = ()
    owner: Text = ""
    dashboard_url: Text = ""

    def env(self, name: str) -> str:
        """Return one of the task's plain variables; "" without."""
        return next((one.env_value for one in self.task_env if one.env_key == name), "")


class Pod(_Wire):
    """A pod of a task; newer servers may write `reason` in place of `statusMsg`."""

    name: Text = ""
    status: Text = ""
    status_msg: Text = ""
    reason: Text = ""
    node: Text = ""
    create_time: Moment = None
    update_time: Moment = None
    exit_code: Annotated[int | None, Lenient] = None

    @property
    def why(self) -> str:
        """What the platform says about it."""
        return self.status_msg or self.reason


class InstanceRow(_Wire):
    """One kind of instance in one pool: what `/instances` lists."""

    id: int
    resource_pool_name: Text = ""
    resource_pool_qos_type: Text = ""
    resource_pool_type: Text = ""
    instance_name: Text = ""
    quota: Count = 0
    avail: Count = 0
    used: Count = 0
    preempted: Count = 0


class UserQuota(_Wire):
    """A user's own share of one row of `/instances`."""

    user_name: Text = ""
    instance_quota_id: Count = 0
    total: Count = 0
    used: Count = 0


_W = TypeVar("_W", bound=_Wire)


def read_row(model: type[_W], row: Any, ids: str = "") -> _W:
    """Return what a row says.

    Args:
        model: what it should be.
        row: as it came.
        ids: of the answer that it came in, for support.

    Raises:
        BackendUnavailable: it is of another shape; names the fields and no value.
    """
    try:
        return model.model_validate(row)
    except ValidationError as error:
        wrong = ", ".join(sorted({".".join(map(str, one["loc"])) or "all of it" for one in error.errors()}))
    where = f" ({ids})" if ids else ""
    raise BackendUnavailable(f"the platform's answer{where} can't be read as a {model.__name__}: {wrong}.")


def read_tasks(rows: list[dict[str, Any]], ids: str = "") -> list[Brief]:
    """Return the tasks among the rows, each uuid once: the same task may come under several filters or pages.

    Args:
        rows: as they came.
        ids: of the answer that they came in, for support.

    Raises:
        BackendUnavailable: a row is of another shape.
    """
    found = {str(row["uuid"]): read_row(Brief, row, ids) for row in rows if row.get("uuid")}
    return list(found.values())
