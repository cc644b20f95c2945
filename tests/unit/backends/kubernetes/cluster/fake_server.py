"""An API server of this process, with faults that a real one can't be made to show.

It lists, gets, creates, patches, deletes and watches objects of any kind, with resource versions, a history that can be
compacted, and bookmarks on demand. Each request may meet a fault that a test has put in its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Answers in the server's place, or returns None to let the request through."""


@dataclass(frozen=True)
class Request:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class _Watcher:
    path: str
    name: str | None
    queue: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)


class FakeServer:
    """A running server; `url` leads to it."""

    url: str

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.token: str | None = None
        self.denied: set[str] = set()
        self.page = 500
        self.documents: dict[str, Any] = {"/apis": {"groups": []}, "/version": {}}
        self._objects: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._version = 100
        self._compacted = 0
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self._watchers: list[_Watcher] = []
        self._news = asyncio.Condition()

    def count(self, verb: str) -> int:
        """How many requests of this verb came (`list`, `get`, `create`, `patch`, `delete`, `watch`)."""
        return sum(request.verb == verb for request in self.requests)

    async def came(self, verb: str, count: int) -> None:
        """Wait until so many requests of this verb came."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: self.count(verb) >= count)

    async def watched(self, count: int = 1) -> None:
        """Wait until so many watches are open."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self._watchers) >= count)

    async def watched_no_more(self) -> None:
        """Wait until no watch is open."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: not self._watchers)

    def put(self, path: str, item: dict[str, Any], *, quietly: bool = False) -> dict[str, Any]:
        """Create or change an object of the collection `path`; quietly: no watch is told."""
        name = item["metadata"]["name"]
        known = self._objects[path].get(name)
        metadata = {"uid": f"uid-{name}-{self._version}", **item["metadata"], "resourceVersion": self._next()}
        if known is not None and "uid" not in item["metadata"]:
            metadata["uid"] = known["metadata"]["uid"]
        self._objects[path][name] = stored = {**item, "metadata": metadata}
        self._tell(path, "MODIFIED" if known else "ADDED", stored, quietly=quietly)
        return stored

    def remove(self, path: str, name: str, *, quietly: bool = False) -> dict[str, Any]:
        """Delete an object."""
        known = self._objects[path].pop(name)
        last = {**known, "metadata": {**known["metadata"], "resourceVersion": self._next()}}
        self._tell(path, "DELETED", last, quietly=quietly)
        return last

    def compact(self) -> None:
        """Forget the history: a watch from an older version is answered 410."""
        self._compacted = self._version
        self._history.clear()

    def send(self, event: dict[str, Any]) -> None:
        """Send an event to all who watch."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(event)

    def bookmark(self) -> None:
        """Send a bookmark to all who watch."""
        self.send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}})

    def end_watches(self) -> None:
        """Close all streams, as a server does after `timeoutSeconds`."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = _verb(request)
        text = await request.text()
        self.requests.append(
            Request(verb, request.path, dict(request.query), dict(request.headers), json.loads(text) if text else None)
        )
        async with self._news:
            self._news.notify_all()
        if self.faults[verb]:
            answer = await self.faults[verb].popleft()(request)
            if answer is not None:
                return answer
        refused = self._refusal(verb, request)
        if refused is not None:
            return refused
        answer = await getattr(self, f"_{verb}")(request)
        assert isinstance(answer, web.StreamResponse)
        return answer

    def _refusal(self, verb: str, request: web.Request) -> web.Response | None:
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        if verb in self.denied:
            return status(403, "Forbidden", f'"{request.path}" is forbidden: User "u" cannot {verb}')
        return None

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _tell(self, path: str, kind: str, item: dict[str, Any], *, quietly: bool) -> None:
        if quietly:
            return
        self._history.append((self._version, path, {"type": kind, "object": item}))
        for watcher in self._watchers:
            if watcher.path == path and watcher.name in (None, item["metadata"]["name"]):
                watcher.queue.put_nowait({"type": kind, "object": item})

    def _missed(self, watcher: _Watcher, since: int) -> list[dict[str, Any]]:
        """What happened since a version; what is there now for one that comes without."""
        if since:
            events = [event for version, path, event in self._history if version > since and path == watcher.path]
        else:
            events = [{"type": "ADDED", "object": item} for item in self._objects[watcher.path].values()]
        return [event for event in events if watcher.name in (None, event["object"]["metadata"]["name"])]

    async def _list(self, request: web.Request) -> web.Response:
        items = sorted(self._objects[request.path].values(), key=lambda item: str(item["metadata"]["name"]))
        start, limit = int(request.query.get("continue", "0")), min(self.page, int(request.query["limit"]))
        metadata = {"resourceVersion": str(self._version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _get(self, request: web.Request) -> web.Response:
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        path, _, name = request.path.rpartition("/")
        item = self._objects[path].get(name)
        return status(404, "NotFound", f"{name!r} not found") if item is None else web.json_response(item)

    async def _create(self, request: web.Request) -> web.Response:
        item = await request.json()
        if item["metadata"]["name"] in self._objects[request.path]:
            return status(409, "AlreadyExists", "already exists")
        return web.json_response(self.put(request.path, item), status=201)

    async def _patch(self, request: web.Request) -> web.Response:
        path, _, name = request.path.rpartition("/")
        if name not in self._objects[path]:
            return status(404, "NotFound", f"{name!r} not found")
        return web.json_response(self.put(path, _merged(self._objects[path][name], await request.json())))

    async def _delete(self, request: web.Request) -> web.Response:
        path, _, name = request.path.rpartition("/")
        if name not in self._objects[path]:
            return status(404, "NotFound", f"{name!r} not found")
        wanted = (await request.json()).get("preconditions", {}).get("uid")
        if wanted not in (None, self._objects[path][name]["metadata"]["uid"]):
            return status(409, "Conflict", "the UID in the precondition does not match")
        return web.json_response(self.remove(path, name))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        if 0 < since < self._compacted:
            return status(410, "Expired", "too old resource version")
        selector = request.query.get("fieldSelector", "")
        watcher = _Watcher(request.path, selector.partition("=")[2] or None)
        for event in self._missed(watcher, since):
            watcher.queue.put_nowait(event)
        response = web.StreamResponse()
        await response.prepare(request)
        self._watchers.append(watcher)
        async with self._news:
            self._news.notify_all()
        try:
            while (event := await watcher.queue.get()) is not None:  # type: ignore[assignment]  # None ends it
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.remove(watcher)
            async with self._news:
                self._news.notify_all()
        return response


def _merged(old: Any, patch: Any) -> Any:
    """What a merge patch (RFC 7396) without deletions makes of an object."""
    if not (isinstance(old, dict) and isinstance(patch, dict)):
        return patch
    return {**old, **{key: _merged(old.get(key), value) for key, value in patch.items()}}


def _verb(request: web.Request) -> str:
    if request.query.get("watch"):
        return "watch"
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"]:
        parts = parts[2:]
    reads = "list" if len(parts) == 1 else "get"
    return {"GET": reads, "POST": "create", "PATCH": "patch", "DELETE": "delete"}[request.method]


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """A `Status` object, as the API server answers."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "status": "Failure"}
    return web.json_response(body, status=code, headers=headers)


def answers(code: int, reason: str = "", message: str = "", **headers: str) -> Fault:
    """A fault: answer with this status."""

    async def fault(_request: web.Request) -> web.StreamResponse:
        return status(code, reason, message, **{name.replace("_", "-"): value for name, value in headers.items()})

    return fault


async def reset(request: web.Request) -> web.StreamResponse | None:
    """A fault: cut the connection."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def black_hole(request: web.Request) -> web.StreamResponse:
    """A fault: open the stream and never send a byte on it."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


@contextlib.asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeServer]:
    """Run a server on a free port of this machine."""
    server = FakeServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.end_watches()
        await runner.cleanup()
