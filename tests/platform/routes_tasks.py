"""`/task-service/v1`, and the log query, whose path is this fake's own: no public source tells the real one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tests.platform import models, shown
from tests.platform.engine import FINAL, FakeTask
from tests.platform.envelope import Refusal, of, one, page_of, rows

router = APIRouter(prefix="/task-service/v1")


def find(request: Request, uuid: str) -> FakeTask:
    """Return a task of that uuid in the region and cluster of the request."""
    platform = of(request)
    task = platform.engine.tasks.get(uuid)
    place = (request.headers.get("X-Region"), request.headers.get("X-Cluster"))
    if task is None or (task.region, task.cluster) != place:
        raise Refusal(404 if platform.missing == "404" else 200, "task not found")
    return task


@router.post("/tasks")
async def create(request: Request, body: models.CreateTask) -> models.One[str]:
    """Create a task: no client token, so that the same request twice makes two."""
    volumes = [one for one in body.volumes or [] if one.volume_id is None and not one.volume_name]
    if volumes:
        raise Refusal(400, "a volume needs volumeId or volumeName")
    task = of(request).engine.create(
        body,
        owner=request.state.user,
        region=request.headers["X-Region"],
        cluster=request.headers["X-Cluster"],
    )
    return models.One[str].model_validate(one(of(request), task.uuid))


class Filter(BaseModel):
    """The query of a listing."""

    model_config = ConfigDict(alias_generator=to_camel)

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    page_size: Annotated[int, Field(ge=1, le=100_000)] = 15
    status: str = ""
    priority: str = ""
    name: str = ""
    product: str = ""
    module: str = ""
    resource_pools: str = ""
    owners: str = ""
    labels: str = ""
    """`key=value`, several joined by commas: this fake's own syntax, the real one is not documented."""
    is_share: bool = False
    is_task_admin: bool = False
    order_by: str = "createTime"
    """Any time of a task, its name, status or priority; which ones the real service takes is not documented."""
    asc: bool = False

    def takes(self, task: FakeTask, mode: str) -> bool:
        """Say whether a task is asked for."""
        named = task.name.startswith(self.name) if mode == "prefix" else self.name in task.name
        body = task.body
        pairs = (
            (self.status, task.status), (self.priority, body.priority), (self.product, body.product),
            (self.module, body.module), (self.resource_pools, body.resource_pool), (self.owners, task.owner),
        )  # fmt: skip
        labels = {f"{key}={value}" for key, value in (body.labels or {}).items()}
        return (
            named
            and all(not wanted or str(value) in wanted.split(",") for wanted, value in pairs)
            and labels.issuperset(filter(None, self.labels.split(",")))
        )

    def rank(self, task: FakeTask) -> tuple[str, str]:
        """Return what the listing is ordered by."""
        times = {"updateTime": task.updated, "startTime": task.started, "endTime": task.ended}
        texts = {"name": task.name, "status": task.status, "priority": task.body.priority or "medium"}
        first = texts.get(self.order_by) or shown.stamp(times.get(self.order_by, task.created)) or ""
        return first, task.uuid


@router.get("/tasks")
async def list_tasks(request: Request, query: Annotated[Filter, Query()]) -> models.Rows[models.TaskBrief]:
    """List tasks, newest first, those that are too new left out."""
    query = Filter.model_validate(dict(request.query_params))  # FastAPI 0.120 reads no alias of a query's model
    platform, user = of(request), request.state.user
    now, place = datetime.now(UTC), (request.headers.get("X-Region"), request.headers.get("X-Cluster"))
    found = [
        task
        for task in sorted(platform.engine.tasks.values(), key=query.rank, reverse=not query.asc)
        if (task.owner == user or query.is_task_admin)
        and not query.is_share  # nothing is shared with anybody here
        and (now - task.created).total_seconds() >= platform.visibility_seconds
        and (task.region, task.cluster) == place
        and query.takes(task, platform.name_filter)
    ]
    page = page_of(found, query.page, min(query.page_size, platform.max_page))
    standing = shown.standings(platform.engine)
    shown_rows = [shown.brief(task, user, standing) for task in page]
    answer = rows(platform, shown_rows, len(found))
    return models.Rows[models.TaskBrief].model_validate(
        {**answer, "total": answer["total"] if platform.page_total else None}
    )


@router.get("/tasks/stop/{uuid}")
async def stop(request: Request, uuid: str) -> models.One[str]:
    """Stop a task: a GET that acts, as documented."""
    _stop(request, find(request, uuid))
    return models.One[str].model_validate(one(of(request), uuid))


@router.post("/tasks/stop")
async def stop_all(request: Request, body: models.Uuids) -> models.One[list[str]]:
    """Stop several tasks."""
    for task in [find(request, uuid) for uuid in body.uuids]:
        _stop(request, task)
    return models.One[list[str]].model_validate(one(of(request), body.uuids))


def _stop(request: Request, task: FakeTask) -> None:
    code = {"404": 404, "409": 409, "envelope": 200}.get(of(request).stop_again)
    if code is not None and (task.stopping.is_set() or task.status in FINAL):
        raise Refusal(code, f"the task is already {task.status}")
    of(request).engine.stop(task)


@router.post("/tasks/deletion")
async def delete_all(request: Request, body: models.Uuids) -> models.One[list[str]]:
    """Delete several tasks."""
    for task in [find(request, uuid) for uuid in body.uuids]:
        _delete(request, task)
    return models.One[list[str]].model_validate(one(of(request), body.uuids))


@router.post("/tasks/resubmission")
async def resubmit(request: Request, body: models.Uuids) -> models.One[list[str]]:
    """Submit tasks anew, as new ones."""
    engine = of(request).engine
    made = [
        engine.create(task.body, owner=task.owner, region=task.region, cluster=task.cluster)
        for task in [find(request, uuid) for uuid in body.uuids]
    ]
    return models.One[list[str]].model_validate(one(of(request), [task.uuid for task in made]))


@router.get("/tasks/{uuid}")
async def get(request: Request, uuid: str) -> models.One[models.Task]:
    """Return one task."""
    task = find(request, uuid)
    data = shown.full(of(request).engine, task, request.state.user)
    return models.One[models.Task].model_validate(one(of(request), data))


@router.delete("/tasks/{uuid}")
async def delete(request: Request, uuid: str) -> models.One[str]:
    """Delete a task that has ended."""
    _delete(request, find(request, uuid))
    return models.One[str].model_validate(one(of(request), uuid))


def _delete(request: Request, task: FakeTask) -> None:
    if task.status not in FINAL:
        raise Refusal(409, f"the task is {task.status}: stop it first")
    of(request).engine.tasks.pop(task.uuid, None)


@router.get("/tasks/{uuid}/pods")
async def pods(request: Request, uuid: str) -> models.One[list[models.Pod]]:
    """Return the pods of one task."""
    return models.One[list[models.Pod]].model_validate(one(of(request), shown.pods(find(request, uuid))))


@router.get("/tasks/{uuid}/logs")
async def logs(
    request: Request,
    uuid: str,
    *,
    pod: str = "",
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    sort_order: Annotated[str, Query(pattern="^(asc|desc)$")] = "asc",
) -> dict[str, Any]:
    """Return log entries; null when there are none. The path is this fake's own."""
    chosen = [one for one in find(request, uuid).pods if not pod or one.name == pod]
    lines = [line for one in chosen for line in one.lines()]
    if sort_order == "desc":
        lines.reverse()
    entries = [{"content": line} for line in lines[offset : offset + limit]]
    return one(of(request), {"logs": entries or None})
