"""The four answers to "can this task fit?", from the pool's row and the user's own share of it.

source: the vendor's Python SDK 0.2.9, `types/instance.py`, `types/quota.py`. What can't be read is `unknown`: nodes of
a pool, and with them the fragments of idle capacity, are in no call that is known, and are read where the connection
spells one (`api_overrides.nodes`). All numbers count units of the instance, the whole task's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.errors import NotFound, Refused
from siflow_provider.backends.platform.wire import InstanceRow, UserQuota, read_row
from siflow_provider.core.quota import Answer, QuotaReport, Shortage, Verdict
from siflow_provider.errors import AccessDenied, BackendUnavailable
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.backends.platform.client import Client
    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["UNREADABLE", "answer_quota", "read_rows"]

_RESOURCES = "/resource-service/v1"
UNREADABLE = (AccessDenied, BackendUnavailable, NotFound, Refused)
"""What keeps a list from being read, and says nothing about what would stand in it."""


async def read_rows(client: Client, settings: Settings) -> list[InstanceRow]:
    """Return what every pool has of every kind of instance.

    Raises:
        BackendError: it can't be read.
    """
    place = {"region": settings.region, "cluster": settings.cluster}
    answer = await client.get(f"{_RESOURCES}/instances", place)
    return [read_row(InstanceRow, row, answer.ids) for row in answer.rows]


async def answer_quota(client: Client, task: ResolvedTask, settings: Settings, *, idle: bool = True) -> QuotaReport:
    """Return the report for the task's first instance; without `idle` no node is asked for."""
    flavor = task.flavors[0]
    pool = flavor.resource_pool or ""
    need = _units(task)
    try:
        rows = await read_rows(client, settings)
    except UNREADABLE as error:
        return _unknown(pool, f"the pools can't be read: {error}")
    row = next((one for one in rows if (one.resource_pool_name, one.instance_name) == (pool, flavor.instance)), None)
    if row is None:
        return _unknown(pool, f"the platform lists no {flavor.instance} in {pool or 'any pool'} for this access key")
    share = await _share(client, row)
    short_of_quota = _fit(need, row.quota, row, f"quota of {pool}")
    return QuotaReport(
        queue=pool,
        remaining=_remaining(need, share, row),
        available=_fit(need, row.avail, row, f"free in {pool} now"),
        idle=await _idle(client, task, row, settings.api_overrides.get("nodes") if idle else None),
        ever=_ever(need, share, row, short_of_quota),
    )


def _units(task: ResolvedTask) -> int:
    return _head_units(task) + task.task.compute.units_per_replica * task.task.workers


def _head_units(task: ResolvedTask) -> int:
    """Return what the master or the head asks of the workers' instance: none where it has an instance of its own."""
    form = task.task
    if task.head is not None and task.head.instance != task.flavors[0].instance:
        return 0
    head = form.ray.head.units if isinstance(form, RayJob) and form.ray.head is not None else None
    return head or form.compute.units_per_replica


def _unknown(pool: str, why: str) -> QuotaReport:
    answer = Answer(Verdict.UNKNOWN, why)
    return QuotaReport(queue=pool, remaining=answer, available=answer, idle=answer, ever=answer)


async def _share(client: Client, row: InstanceRow) -> UserQuota | str:
    """Return the user's own share of the row, or why there is none to be had."""
    try:
        user = (await client.get(f"{_RESOURCES}/user-instances")).data
        name = user.get("user") if isinstance(user, dict) else None
        answer = await client.get(f"{_RESOURCES}/user-quota", {"instanceQuotaId": row.id})
        shares = [read_row(UserQuota, one, answer.ids) for one in answer.rows]
    except UNREADABLE as error:
        return f"the user's quota can't be read: {error}"
    own = [one for one in shares if one.user_name == name and one.instance_quota_id == row.id]
    return own[0] if own else "the platform lists no quota of this user's own for it"


async def _idle(client: Client, task: ResolvedTask, row: InstanceRow, spelling: Mapping[str, Any] | None) -> Answer:
    """Return how many replicas fit node by node; unknown where nodes can't be read."""
    seen = f"{row.avail} of {row.quota} units are free in all, {row.preempted} preempted"
    if spelling is None:
        return Answer(Verdict.UNKNOWN, f"{seen}; how they lie on nodes is in no call that is known")
    words = {"pool": row.resource_pool_name, "instance": row.instance_name}
    params = {name: str(value).format_map(words) for name, value in spelling.get("params", {}).items()}
    try:
        nodes = await client.rows(str(spelling["path"]).format_map(words), params)
        free = [int(one[spelling["free"]]) for one in nodes if one.get(spelling["instance"]) == row.instance_name]
    except (*UNREADABLE, KeyError, TypeError, ValueError) as error:
        return Answer(Verdict.UNKNOWN, f"{seen}; the nodes can't be read: {type(error).__name__} {error}")
    return _pieces(task, free, seen)


def _pieces(task: ResolvedTask, free: list[int], seen: str) -> Answer:
    """Return whether every replica finds a node; free units that fit no replica are fragments."""
    each, head, nodes = task.task.compute.units_per_replica, _head_units(task), [max(0, one) for one in free]
    replicas, placed = task.task.workers + (head > 0), 0
    # the head goes where it takes room from the fewest workers, and there where the least is left over
    holds = [index for index, one in enumerate(nodes) if one >= head > 0]
    lost = {index: nodes[index] // each - (nodes[index] - head) // each for index in holds}
    place = min(holds, key=lambda index: (lost[index], nodes[index]), default=None)
    if place is not None:
        nodes[place], placed = nodes[place] - head, 1
    room = placed + sum(one // each for one in nodes)
    left = sum(one % each for one in nodes)
    fragments = f", {left} left over in pieces" if left else ""
    told = f"{seen}; {room} of {replicas} replicas of {each} units fit on {len(free)} nodes{fragments}"
    fits = room >= replicas and (placed > 0 or head == 0)
    return Answer(Verdict.YES if fits else Verdict.NO, told)


def _fit(need: int, have: int, row: InstanceRow, where: str) -> Answer:
    if need <= have:
        return Answer(Verdict.YES, f"{need} units of {row.instance_name} fit: {where}: {have}")
    short = Shortage(row.instance_name, need, max(0, have), "units", where)
    return Answer(Verdict.NO, f"the whole task does not fit: {where}", (short,))


def _remaining(need: int, share: UserQuota | str, row: InstanceRow) -> Answer:
    if isinstance(share, str):
        return Answer(Verdict.UNKNOWN, share)
    return _fit(need, share.total - share.used, row, f"left of your {share.total} units in {row.resource_pool_name}")


def _ever(need: int, share: UserQuota | str, row: InstanceRow, pool: Answer) -> Answer:
    if pool.verdict is Verdict.NO or isinstance(share, str):
        return pool
    return _fit(need, min(share.total, row.quota), row, f"your share of {row.resource_pool_name}")
