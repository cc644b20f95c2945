"""An API server of this process that serves pods and their logs, and breaks the connections as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, status
from tests.unit.backends.kubernetes.logs.written import Record, sent

PODS = "/api/v1/namespaces/ml/pods"
_BLOCK = 64 * 1024


@dataclass(frozen=True)
class Cut:
    """How one connection ends: after so many bytes, and in which way."""

    after: int
    how: Literal["closed", "reset", "silent"] = "reset"


@dataclass
class Written:
    """What one container wrote so far."""

    records: list[Record] = field(default_factory=list)
    done: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, *texts: str, every: int = 1) -> None:
        """Write lines, each so many nanoseconds after the one before."""
        for text in texts:
            at = self.records[-1].at + every if self.records else 0
            self.records.append(Record(at, text.encode()))
        self.tell()

    def end(self) -> None:
        """Write nothing more: those who follow get the rest and the end."""
        self.done = True
        self.tell()

    def tell(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()


class LogServer(FakeServer):
    """The server.

    Attributes:
        cuts: (pod, container) -> how its next connections end.
        refusals: pod -> answers (status, message) that its next log requests get.
        asked: (pod, query) of each log request.
        paths: of all requests.
        denies_lists: whether the login may not list all pods.
        open: log connections open now.
        bytes_sent: of logs, in all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cuts: dict[tuple[str, str], deque[Cut]] = defaultdict(deque)
        self.refusals: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.paths: list[str] = []
        self.denies_lists = False
        self.open = 0
        self.bytes_sent = 0
        self._written: dict[tuple[str, str], Written] = defaultdict(Written)

    def log(self, pod: str, container: str = "pytorch") -> Written:
        """Return what a container wrote, to write more."""
        return self._written[pod, container]

    def new_log(self, pod: str, container: str = "pytorch") -> Written:
        """The pod of this name is another one now, and has written nothing."""
        self._written[pod, container] = Written()
        return self._written[pod, container]

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is so; looked at whenever a request comes or a log connection ends."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(true)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        await self._notify()
        if request.path.endswith("/log"):
            return await self._log(request)
        if self.denies_lists and request.path.endswith("/pods") and "fieldSelector" not in request.query:
            return status(403, "Forbidden", "may not list pods")
        if request.path.endswith("/pods"):
            return await (self._watch(request) if request.query.get("watch") else self._list(request))
        return await self._get(request)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod = request.path.split("/")[-2]
        self.asked.append((pod, dict(request.query)))
        if self.refusals[pod]:
            code, message = self.refusals[pod].popleft()
            return status(code, "InternalError" if code >= 500 else "BadRequest", message)
        if pod not in self._objects[PODS]:
            return status(404, "NotFound", f"pods {pod!r} not found")
        self.open += 1
        try:
            return await self._send(request, pod)
        finally:
            self.open -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _send(self, request: web.Request, pod: str) -> web.StreamResponse:
        key = (pod, request.query["container"])
        written, cut = self._written[key], self.cuts[key].popleft() if self.cuts[key] else None
        response = web.StreamResponse()
        await response.prepare(request)
        at, since = 0, request.query.get("sinceTime")
        while True:
            news, done = written.news, written.done
            data = sent(written.records, since)
            while at < len(data):
                block = data[at : min(at + _BLOCK, cut.after if cut is not None else len(data))]
                await response.write(block)
                at += len(block)
                self.bytes_sent += len(block)
                if cut is not None and at >= cut.after:
                    return await _broken(request, response, cut)
            if done or request.query.get("follow") != "true":
                return response
            await news.wait()


async def _broken(request: web.Request, response: web.StreamResponse, cut: Cut) -> web.StreamResponse:
    if cut.how == "reset":
        assert request.transport is not None
        request.transport.abort()
    elif cut.how == "silent":
        await asyncio.Event().wait()
    return response


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[LogServer]:
    """Run a server on a free port of this machine."""
    server = LogServer()
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.end_watches()
        await runner.cleanup()


def pod(replica: str, state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a pod of the PyTorchJob `bert`, its container running unless `state` says otherwise.

    Args:
        replica: `worker-1`.
        state: the main container's `state`.
        more: fields of `status`, `spec` or `metadata` to replace, by their own names.
    """
    role, _, index = replica.rpartition("-")
    state = state if state is not None else {"running": {}}
    metadata = {
        "name": f"bert-{replica}",
        "creationTimestamp": "2026-05-01T09:59:00Z",
        "labels": {
            "siflow-provider/run": "1f0e",
            "siflow-provider/attempt": "1",
            "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": index,
        },
    }
    ended = state.get("terminated")
    phase = "Running" if ended is None else ("Failed" if ended.get("exitCode") else "Succeeded")
    return {
        "metadata": {**metadata, **more.get("metadata", {})},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch"}], **more.get("spec", {})},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "pytorch", "state": state}],
            **more.get("status", {}),
        },
    }


ENDED = {"terminated": {"exitCode": 0}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}
