"""What `doctor` looks at: signature, clock, access, pools, and what the connection can't do; each with its mend."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from siflow_provider.backends.platform.client import SKEW_SECONDS
from siflow_provider.backends.platform.overrides import check_overrides
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.place import Place, open_place
from siflow_provider.backends.platform.quota import read_rows
from siflow_provider.core.checkup import Check
from siflow_provider.errors import SiflowError
from siflow_provider.spec.catalog import load_catalog

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["check_platform"]


async def check_platform(settings: Settings, pace: Pace | None = None) -> list[Check]:
    """Look at everything that a task on this connection needs. Never raises for what is wrong: it says so.

    Example:
        for check in await check_platform(settings): print(check.name, check.ok, check.found)
    """
    try:
        check_overrides(settings.body_overrides, settings.api_overrides)
        async with open_place(settings, pace or Pace(tries=2)) as place:
            access = await _try("signature and access to tasks", lambda: _tasks(place))
            pools = await _try("pools", lambda: _pools(place, settings))
            named = await _try("the catalog's pools", lambda: _named(place, settings)) if pools.ok else None
            return [access, _clock(place), pools, *filter(None, [named]), _logs(settings)]
    except SiflowError as error:
        return [Check("connection", False, error.message, error.hint or "correct the connection")]


async def _try(name: str, look: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(name, True, await look())
    except SiflowError as error:
        return Check(
            name, False, error.message, error.hint or "ask the platform's support, with the ids in the message"
        )


async def _tasks(place: Place) -> str:
    answer = await place.client.get("/task-service/v1/tasks", {"page": 1, "pageSize": 1})
    return f"the access key is accepted; tasks it may see: {answer.total if answer.total is not None else 'not told'}"


async def _pools(place: Place, settings: Settings) -> str:
    rows = await read_rows(place.client, settings)
    pools = sorted({row.resource_pool_name for row in rows})
    if not pools:
        raise SiflowError("no pool is open to this access key.", hint="Ask the platform's admin for a share of one.")
    return f"{len(pools)}: {', '.join(pools[:5])}"


async def _named(place: Place, settings: Settings) -> str:
    """Look whether what the catalog's queues name is there: pools get renamed."""
    if settings.catalog is None:
        return "there is no catalog"
    there = {(row.resource_pool_name, row.instance_name) for row in await read_rows(place.client, settings)}
    queues = (await asyncio.to_thread(load_catalog, settings.catalog)).queues
    named = {(entry.resource_pool, entry.instance) for entry in queues if entry.resource_pool is not None}
    absent = sorted(named - there)
    if absent:
        pool, instance = absent[0]
        near = difflib.get_close_matches(pool, sorted({name for name, _ in there}), n=1)
        more = f", and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise SiflowError(
            f"the platform lists no {instance!r} in {pool!r} for this access key{more}.",
            hint=f"{f'Did you mean {near[0]!r}? ' if near else ''}`catalog discover` lists what is there.",
        )
    return f"all {len(named)} are there"


def _clock(place: Place) -> Check:
    skew = place.client.skew_seconds
    if skew is None:
        return Check("clock", True, "not told: the platform sent no date", needed=False)
    mend = "set this machine's clock (NTP): signatures carry the time, and how far it may be off is not documented"
    return Check("clock", abs(skew) < SKEW_SECONDS, f"{skew:+.0f} s off the platform's", mend)


def _logs(settings: Settings) -> Check:
    known = "logs" in settings.api_overrides
    found = "the log query is spelt in the connection" if known else "this connection can't read logs and results"
    return Check("logs", known, found, "give api_overrides.logs in the connection's extra", needed=False)
