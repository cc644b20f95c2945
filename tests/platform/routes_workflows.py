"""`/workflow-service/v1`: workflows whose steps are tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from tests.platform import models_lists
from tests.platform.envelope import Refusal, of, one, rows
from tests.platform.routes_lists import Paged
from tests.platform.workflows import Workflow, body_of, run

router = APIRouter(prefix="/workflow-service/v1")


@router.post("/instances/direct")
async def create(request: Request, body: models_lists.CreateWorkflow) -> dict[str, Any]:
    """Start a workflow; one with a schedule is kept and not run."""
    platform = of(request)
    templates = {step.name for step in body.steps}
    unknown = [task.template for task in body.dag.tasks if task.template not in templates]
    if unknown:
        raise Refusal(400, f"no step is called {unknown[0]}")
    try:
        for step in body.steps:
            body_of(step)
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(400, f"a step's spec can't be read: {error}") from error
    made = Workflow(platform.number(), body, status="Running" if body.cron is None else "Scheduled")
    platform.workflows[made.id] = made
    if body.cron is None:
        place = {"region": request.headers["X-Region"], "cluster": request.headers["X-Cluster"]}
        made.work = asyncio.create_task(run(made, platform.engine, owner=request.state.user, **place))
    return one(platform, {"id": made.id})


@router.get("/instances")
async def listed(request: Request, page: Paged, status: str = "") -> dict[str, Any]:
    """List workflows, newest first."""
    found = [each.row() for each in reversed(of(request).workflows.values()) if status in ("", each.status)]
    return {**rows(of(request), page.of(found), len(found)), "page": page.number, "pageSize": page.size}


@router.get("/instances/{number}/steps")
async def steps(request: Request, number: int) -> dict[str, Any]:
    """Return how far each step is."""
    return one(of(request), {"steps": _find(request, number).steps()})


@router.delete("/instances/{number}")
async def remove(request: Request, number: int) -> dict[str, Any]:
    """Stop a workflow's tasks and remove it."""
    found = _find(request, number)
    if found.work is not None:
        found.work.cancel()
    for task in found.tasks.values():
        of(request).engine.stop(task)
    del of(request).workflows[number]
    return one(of(request), {"id": number})


def _find(request: Request, number: int) -> Workflow:
    found = of(request).workflows.get(number)
    if found is None:
        raise Refusal(404, "workflow not found")
    return found
