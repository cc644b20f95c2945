"""The fake platform as an application: `/sfapi` as documented, `/control` for whoever tests with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from tests.platform import routes_lists, routes_orders, routes_resources, routes_tasks, routes_workflows
from tests.platform.control import Control, Fault
from tests.platform.envelope import Refusal, refused
from tests.platform.models import CreateTask
from tests.platform.names import CLUSTER, REGION, USER
from tests.platform.platform import Platform

Next = Callable[[Request], Awaitable[Response]]


def create_app(platform: Platform) -> FastAPI:
    """Return the application of one platform."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await platform.close()

    root = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    root.mount("/sfapi", _documented(platform))
    root.state.platform = platform
    _add_control(root, platform)
    return root


def _documented(platform: Platform) -> FastAPI:
    app = FastAPI(title="fake platform", docs_url=None, redoc_url=None)
    app.state.platform = platform
    for routes in (routes_tasks, routes_orders, routes_resources, routes_lists, routes_workflows):
        app.include_router(routes.router)

    @app.exception_handler(Refusal)
    async def _refusal(_: Request, error: Refusal) -> Response:
        return refused(platform, error.code, error.message)

    @app.exception_handler(HTTPException)
    async def _absent(_: Request, error: HTTPException) -> Response:
        return refused(platform, error.status_code, str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def _wrong(_: Request, error: RequestValidationError) -> Response:
        texts = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return refused(platform, 400, "; ".join(texts))

    @app.middleware("http")
    async def _gate(request: Request, call_next: Next) -> Response:
        path = request.url.path.removeprefix("/sfapi")
        if path == "/openapi.json":
            return await call_next(request)
        platform.requests.append((request.method, path))
        fault = _fault(platform, request.method, path)
        if fault is not None and not fault.after:
            return await _failing(platform, fault)
        answer = await _signed(platform, request, call_next)
        answer.headers["Date"] = formatdate(platform.keys.now(), usegmt=True)
        return answer if fault is None else await _failing(platform, fault)

    return app


async def _signed(platform: Platform, request: Request, call_next: Next) -> Response:
    user, why = platform.keys.user_of(request.headers)
    if why:
        return refused(platform, 401, why)
    if not request.headers.get("X-Region") or not request.headers.get("X-Cluster"):
        return refused(platform, 400, "X-Region and X-Cluster are needed")
    request.state.user = user
    return await call_next(request)


def _fault(platform: Platform, method: str, path: str) -> Fault | None:
    for fault in platform.faults:
        if fault.times > 0 and fault.method in ("", method) and re.search(fault.path, path):
            fault.times -= 1
            return fault
    return None


async def _failing(platform: Platform, fault: Fault) -> Response:
    await asyncio.sleep(fault.hang_seconds)
    if fault.body is not None:
        return Response(fault.body, status_code=fault.status or 200, headers=fault.headers)
    code = fault.status or (200 if fault.envelope_false else 503)
    answer = refused(platform, code, fault.envelope_false or f"fault {code}")
    answer.headers.update(fault.headers)
    return answer


def _add_control(root: FastAPI, platform: Platform) -> None:
    @root.post("/control")
    async def change(control: Control) -> dict[str, Any]:
        platform.change(control)
        return {"faults": len(platform.faults)}

    @root.get("/control/requests")
    async def requests() -> list[tuple[str, str]]:
        return platform.requests

    @root.delete("/control/requests")
    async def forget() -> None:
        platform.requests.clear()

    @root.post("/control/tasks")
    async def queue(bodies: list[CreateTask]) -> list[str]:
        """Put tasks into the queue and let none start: thousands at once, for measurements."""
        return [task.uuid for task in platform.engine.fill(bodies, owner=USER, region=REGION, cluster=CLUSTER)]

    @root.delete("/control/tasks/{uuid}")
    async def vanish(uuid: str) -> None:
        """Take a task away as an admin does: it ends, and nothing of it is listed any more."""
        task = platform.engine.tasks.get(uuid)
        if task is not None:
            platform.engine.stop(task)
            platform.engine.tasks.pop(uuid)

    @root.post("/control/lists/{name}")
    async def fill(name: str, found: list[dict[str, Any]]) -> None:
        platform.lists[name] = found
