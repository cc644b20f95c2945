"""An API server of this process that answers reads with what a test gives it, and counts them."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tests.unit.backends.kubernetes.cluster.fake_server import status

PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"


class Answering:
    """A running server; `url` leads to it.

    Attributes:
        lists: path -> its items.
        objects: path -> the object.
        denied: paths that may not be read.
        waiting: path of a queue -> who waits there.
        broken: answers every read with 503 while True.
        asked: path -> how often.
        limits: path -> how many items were asked for, each time.
    """

    url: str

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.denied: set[str] = set()
        self.waiting: dict[str, list[dict[str, Any]]] = {}
        self.broken = False
        self.asked: Counter[str] = Counter()
        self.limits: defaultdict[str, list[str]] = defaultdict(list)

    def line_up(self, namespace: str, queue: str, *waiting: tuple[str, str]) -> None:
        """Let these (namespace, Workload) wait before every queue of that name, in this order."""
        items = [
            {
                "metadata": {"namespace": each, "name": name},
                "positionInClusterQueue": place,
                "positionInLocalQueue": place,
            }
            for place, (each, name) in enumerate(waiting)
        ]
        self.waiting[PENDING.format(namespace=namespace, queue=queue)] = items

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        self.limits[request.path].append(request.query.get("limit", ""))
        if self.broken:
            return status(503, "ServiceUnavailable", "try again")
        if request.path in self.denied:
            return status(403, "Forbidden", "may not")
        if request.path in self.waiting:
            offset, limit = int(request.query["offset"]), int(request.query["limit"])
            return web.json_response({"items": self.waiting[request.path][offset : offset + limit]})
        if request.path in self.lists:
            return web.json_response({"metadata": {}, "items": self.lists[request.path]})
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        return status(404, "NotFound", "not found")


@contextlib.asynccontextmanager
async def answering() -> AsyncIterator[Answering]:
    """Run a server on a free port of this machine."""
    server = Answering()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
