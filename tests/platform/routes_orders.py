"""`/resource-service/v1`: what may be ordered, what was, and what was used of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from tests.platform.engine import Pool
from tests.platform.envelope import Refusal, of, one
from tests.platform.lists import WHEN
from tests.platform.names import TENANT, USER
from tests.platform.routes_lists import Paged

router = APIRouter(prefix="/resource-service/v1")


def _pools(
    request: Request,
    page: Paged,
    region: str,
    cluster: str = "",
    tenant: Annotated[str, Query(alias="tenantName")] = "",
) -> list[Pool]:
    """Return one page of the pools of a region: `region` must be given."""
    here = (request.headers["X-Region"], request.headers["X-Cluster"], TENANT)
    asked = (region, cluster or here[1], tenant or TENANT)
    return page.of(of(request).engine.pools) if asked == here else []


Asked = Annotated[list[Pool], Depends(_pools)]


def _row(request: Request, pool: Pool) -> dict[str, Any]:
    return {
        "id": pool.id,
        "region": request.headers["X-Region"],
        "tenantName": TENANT,
        "cluster": request.headers["X-Cluster"],
        "instanceType": pool.instance,
        "instanceQuantity": pool.quota,
    }


@router.get("/instances/ondemand")
async def limits(request: Request, pools: Asked) -> dict[str, Any]:
    """Return how much of each instance may be ordered."""
    more = {"createAt": WHEN, "updateAt": WHEN, "creator": "admin"}
    return one(of(request), [{**_row(request, pool), **more} for pool in pools])


@router.get("/instances/available")
async def orders(request: Request, pools: Asked, status: str = "") -> dict[str, Any]:
    """Return what was ordered and can be used."""
    if status not in ("", "available"):
        return one(of(request), [])
    more = {"status": "available", "buyAt": WHEN, "expireAt": WHEN, "duration": 365, "buyer": USER}
    return one(of(request), [{**_row(request, pool), "orderId": f"order-{pool.id}", **more} for pool in pools])


@router.get("/instance/quota")
async def kinds(request: Request) -> dict[str, Any]:
    """Return what one unit of each instance gives; which call has these rows is not documented."""
    names = sorted({pool.instance for pool in of(request).engine.pools})
    return one(of(request), [_kind(name) for name in names])


def _kind(name: str) -> dict[str, Any]:
    gpus = "1" if name.startswith("gpu") else "0"
    sizes = {"cpu": "8", "memory": "64Gi"} if gpus == "1" else {"cpu": "1", "memory": "4Gi"}
    more = {"cost": None, "description": "", "ib": None, "gpu-type": "demo" if gpus == "1" else None, "gpu-num": gpus}
    return {"showname": name, **sizes, **more}


@router.get("/instances/ondemand-metering")
async def metering(
    request: Request, start: Annotated[str, Query(alias="startTime")], end: Annotated[str, Query(alias="endTime")]
) -> dict[str, Any]:
    """Return what ended tasks have used, in an envelope that has `error` in place of `msg`."""
    if start > end:
        raise Refusal(400, "startTime is behind endTime")
    engine, rows = of(request).engine, []
    for task in engine.tasks.values():
        if task.pool is not None and task.started is not None and task.ended is not None:
            hours = (task.ended - task.started).total_seconds() / 3600
            rows.append({"taskUuid": task.uuid, "instanceName": task.pool.instance, "unitHours": task.units * hours})
    return {"status": True, "error": "", "total": len(rows), "rows": rows}
