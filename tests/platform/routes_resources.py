"""`/resource-service/v1`: pools, shares of them, what is used, and rules for nodes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from tests.platform import models
from tests.platform.engine import Pool
from tests.platform.envelope import Refusal, of, one, page_of, rows
from tests.platform.names import TENANT
from tests.platform.platform import Platform

router = APIRouter()
RESOURCES = "/resource-service/v1"
NODE_UNITS = 8
WHEN = "2026-01-01T00:00:00Z"


@router.get(f"{RESOURCES}/instances")
async def instances(
    request: Request,
    region: str = "",
    cluster: str = "",
    qos: Annotated[str, Query(alias="resourcePoolQosType")] = "",
    tenant: Annotated[str, Query(alias="tenantName")] = "",
) -> models.One[list[models.InstanceQuota]]:
    """Return what each pool has of each instance."""
    place = (request.headers.get("X-Region"), request.headers.get("X-Cluster"))
    if (region or place[0], cluster or place[1]) != place or tenant not in ("", TENANT):
        return models.One[list[models.InstanceQuota]].model_validate(one(of(request), []))
    found = [_row(of(request), pool, place) for pool in of(request).engine.pools]
    found = [row for row in found if not qos or row["resourcePoolQosType"] == qos]
    return models.One[list[models.InstanceQuota]].model_validate(one(of(request), found))


def _row(platform: Platform, pool: Pool, place: tuple[Any, Any]) -> dict[str, Any]:
    used = platform.engine.used(pool)
    return {
        "id": pool.id,
        "region": place[0],
        "cluster": place[1],
        "resourcePoolQosType": "reserved" if "reserved" in pool.name else "ondemand",
        "resourcePoolType": "shared",
        "resourcePoolName": pool.name,
        "resourcePoolIsolation": "none",
        "instanceName": pool.instance,
        "quota": pool.quota,
        "avail": pool.quota - used,
        "used": used,
        "preempted": 0,
        "authorizedUsers": sorted(pool.shares),
        "creator": "admin",
        "createdAt": WHEN,
        "expireAt": "",
    }


@router.get(f"{RESOURCES}/resource-pools/nodes")
async def nodes(request: Request, name: Annotated[str, Query(alias="resourcePoolName")]) -> dict[str, Any]:
    """Return the nodes of a pool. The path is this fake's own: no public source tells the real one."""
    found = []
    for pool in of(request).engine.pools:
        if pool.name == name:
            free = spread(pool.quota, of(request).engine.used(pool))
            found += [
                {"name": f"n{index}", "instanceName": pool.instance, "avail": one} for index, one in enumerate(free)
            ]
    return rows(of(request), found)


def spread(quota: int, used: int) -> list[int]:
    """Return what is free on each node of eight units when all of them are filled alike."""
    count = -(-quota // NODE_UNITS)
    sizes = [min(NODE_UNITS, quota - index * NODE_UNITS) for index in range(count)]
    taken = [used // count + (index < used % count) for index in range(count)]
    return [max(0, size - one) for size, one in zip(sizes, taken, strict=True)]


@router.get(f"{RESOURCES}/user-quota")
async def user_quota(
    request: Request,
    number: Annotated[int | None, Query(alias="id")] = None,
    user: Annotated[str, Query(alias="userName")] = "",
    quota: Annotated[int | None, Query(alias="instanceQuotaId")] = None,
) -> models.One[list[models.UserQuota]]:
    """Return users' own shares; one of the three must be given."""
    if number is None and not user and quota is None:
        raise Refusal(400, "id, userName or instanceQuotaId is needed")
    engine = of(request).engine
    found = [
        {
            "id": pool.id * 100,
            "userName": name,
            "instanceQuotaId": pool.id,
            "total": total,
            "used": engine.used(pool, name),
            "creator": "admin",
        }
        for pool in engine.pools
        for name, total in pool.shares.items()
        if user in ("", name) and quota in (None, pool.id) and number in (None, pool.id * 100)
    ]
    return models.One[list[models.UserQuota]].model_validate(one(of(request), found))


@router.get(f"{RESOURCES}/user-instances")
async def user_instances(request: Request) -> dict[str, Any]:
    """Return what the caller uses, by pool."""
    engine, user = of(request).engine, request.state.user
    uses: dict[str, dict[str, dict[str, int]]] = {"reserved": {}, "ondemand": {}}
    for pool in engine.pools:
        kind = "reserved" if "reserved" in pool.name else "ondemand"
        uses[kind].setdefault(pool.name, {})[pool.instance] = engine.used(pool, user)
    return one(of(request), {"user": user, **uses})


@router.get(f"{RESOURCES}/user-instances-pool")
async def user_instances_pool(request: Request) -> dict[str, Any]:
    """Return who uses what, by pool."""
    engine = of(request).engine
    found = [
        {
            "resourcePoolName": pool.name,
            "resourcePoolQosType": "reserved" if "reserved" in pool.name else "ondemand",
            "resourcePoolType": "shared",
            "instanceName": pool.instance,
            "userInstanceUsage": [
                {"user": name, "usages": {pool.instance: engine.used(pool, name)}} for name in pool.shares
            ],
        }
        for pool in engine.pools
    ]
    return one(of(request), found)


@router.get(f"{RESOURCES}/resources/summary")
async def summary(request: Request) -> dict[str, Any]:
    """Return totals, without an envelope."""
    gpus = [pool for pool in of(request).engine.pools if pool.instance.startswith("gpu")]
    used = sum(of(request).engine.used(pool) for pool in gpus)
    total = sum(pool.quota for pool in gpus)
    return {"totalGpu": total, "usedGpu": used, "totalVolume": 100, "usedVolume": 1, "volumeUnit": "TiB"}


@router.post(f"{RESOURCES}/node-blacklists")
async def add_rules(request: Request, body: models.NodeRules) -> dict[str, Any]:
    """Add one rule per node."""
    platform = of(request)
    for node in body.node_names:
        number = platform.number()
        platform.node_rules[number] = {
            "id": number,
            "tenant": TENANT,
            "user": request.state.user,
            "nodeName": node,
            "enabled": True,
            **body.model_dump(mode="json", by_alias=True, exclude={"node_names"}),
        }
    return one(platform, None)


@router.get(f"{RESOURCES}/node-blacklists")
async def list_rules(
    request: Request,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    size: Annotated[int, Query(alias="pageSize", ge=1, le=100_000)] = 20,
    scope: str = "",
    only_enabled: Annotated[bool, Query(alias="onlyEnabled")] = False,
) -> dict[str, Any]:
    """Return the rules."""
    found = [
        rule
        for rule in of(request).node_rules.values()
        if scope in ("", rule["scope"]) and (rule["enabled"] or not only_enabled)
    ]
    return {**rows(of(request), page_of(found, page, size), len(found)), "page": page, "pageSize": size}


@router.put(f"{RESOURCES}/node-blacklists")
async def change_rule(request: Request, body: models.NodeRule) -> dict[str, Any]:
    """Change a rule."""
    rule = of(request).node_rules.get(body.id)
    if rule is None:
        raise Refusal(404, "rule not found")
    rule.update(body.model_dump(mode="json", by_alias=True, exclude_none=True))
    return one(of(request), None)


@router.delete(f"{RESOURCES}/node-blacklists/{{number}}")
async def remove_rule(request: Request, number: int) -> dict[str, Any]:
    """Remove a rule."""
    if of(request).node_rules.pop(number, None) is None:
        raise Refusal(404, "rule not found")
    return one(of(request), None)
