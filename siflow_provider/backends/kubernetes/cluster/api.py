"""The verbs of an API server: read, list, create, patch, delete, watch, stream, run a command in a container.

A call is tried again after a passing fault (429, 5xx, lost connection) for some 20 seconds, with what the server asked
to wait; what is wrong (400, 403, 404, 409, 422) is not. Sending a create twice is safe, since every object of ours has
a fixed name: the second one is `AlreadyExists`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from siflow_provider.backends.kubernetes.cluster.errors import (
    Expired,
    NotFound,
    Silent,
    Unavailable,
    error_of_status,
)
from siflow_provider.backends.kubernetes.cluster.execute import execute
from siflow_provider.backends.kubernetes.cluster.login import Login
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.retry import tried
from siflow_provider.backends.kubernetes.cluster.transport import Params, Transport, passing_faults

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["MERGE_PATCH", "Api"]

MERGE_PATCH = "application/merge-patch+json"
_PAGE = 500
_FIELD_VALIDATION = {"fieldValidation": "Strict"}


class Api:
    """One API server as one login sees it.

    Args:
        settings: the connection.
        context: context of the kubeconfig; "" for the connection's own.
        pace: how long to wait for what.

    Example:
        async with Api(settings) as api:
            pod = await api.get(PODS.path("ml", "train-master-0"))
    """

    def __init__(self, settings: Settings, context: str = "", *, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self._transport = Transport(Login(settings.kubernetes, context), self.pace)

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._transport.access.server

    @property
    def namespace(self) -> str:
        """The namespace to use where nobody names one: the connection's, else the context's, else `default`."""
        return self._transport.access.namespace

    async def get(self, path: str, params: Params = None, *, accept: str = "application/json") -> dict[str, Any]:
        """Return one object, in the form that `accept` asks for.

        Raises:
            NotFound: there is none.
            ApiError: as `errors` draws them.
        """
        return await self._json("GET", path, params=params, accept=accept)

    async def list(self, path: str, params: Params = None) -> dict[str, Any]:
        """Return `{"metadata": ..., "items": [...]}` with the items of all pages; `metadata` is the last page's."""
        items: list[dict[str, Any]] = []
        metadata: dict[str, Any] = {}
        async for page in self.pages(path, params):
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
        return {"metadata": metadata, "items": items}

    async def pages(self, path: str, params: Params = None, *, limit: int = _PAGE) -> AsyncIterator[dict[str, Any]]:
        """Yield a list page by page.

        Raises:
            Expired: reading took so long that the rest is no longer kept; start again.
        """
        more = ""
        while True:
            query = [*_pairs(params), ("limit", str(limit)), *([("continue", more)] if more else [])]
            page = await self._json("GET", path, params=query)
            more = str((page.get("metadata") or {}).get("continue") or "")
            yield page
            if not more:
                return

    async def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; a field that its kind does not have is an error.

        Args:
            path: path of the collection.
            body: the object.
            dry_run: have everything checked, by webhooks too, and keep nothing.

        Raises:
            AlreadyExists: there is one of this name.
            Invalid: the object is wrong; says where.
            QuotaExceeded: a ResourceQuota has no room now.
        """
        return await self._json("POST", path, params=_checked(dry_run), data=_encoded(body))

    async def patch(
        self,
        path: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        content_type: str = MERGE_PATCH,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Change an object, by a merge patch unless `content_type` says otherwise, and return it."""
        data = _encoded(body)
        return await self._json("PATCH", path, params=_checked(dry_run), data=data, content_type=content_type)

    async def delete(self, path: str, *, uid: str | None = None, propagation: str = "Background") -> bool:
        """Delete an object; False when it was gone.

        Args:
            path: path of the object.
            uid: only the object of this uid.
            propagation: what becomes of what it owns: `Background`, `Foreground` or `Orphan`.

        Raises:
            Conflict: the object of this name has another uid.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._json("DELETE", path, data=_encoded(options))
        except NotFound:
            return False
        return True

    async def watch(self, path: str, params: Params = None) -> AsyncGenerator[dict[str, Any], None]:
        """Yield `{"type": ..., "object": ...}` as they come, bookmarks too; ends when the server or the net ends it.

        Close it when you leave early (`contextlib.aclosing`).

        Raises:
            Expired: events since the version asked for are no longer kept.
            Silent: nothing came for `Pace.heartbeat` seconds, not even a bookmark.
            ApiError: the watch can't be opened.
        """
        query = [*_pairs(params), ("watch", "1"), ("allowWatchBookmarks", "true")]
        buffer = bytearray()
        async with aclosing(self._chunks(path, query, silence=self.pace.heartbeat, counted=False)) as chunks:
            async for chunk in chunks:
                if chunk is None:
                    return
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in filter(None, lines):
                    yield _event(path, line)

    async def stream(
        self, path: str, params: Params = None, *, silence: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an answer (a log) as they come; ends with it.

        It waits for one of `Pace.streams` places to open it. Close it when you leave early (`contextlib.aclosing`).

        Args:
            path: what to read.
            params: its query.
            silence: seconds without a byte after which the connection counts as dead; None: it never does.

        Raises:
            Silent: nothing came for that long.
            Unavailable: the connection was lost in the middle, or can't be opened.
        """
        async with aclosing(self._chunks(path, params, silence=silence, counted=True)) as chunks:
            async for chunk in chunks:
                if chunk is None:
                    raise Unavailable(f"the connection to the API server was lost in the middle of {path}.")
                yield chunk

    async def execute(
        self,
        namespace: str,
        pod: str,
        container: str,
        argv: Sequence[str],
        timeout: float = 30.0,  # noqa: ASYNC109
    ) -> tuple[int, str, str]:
        """Run a command in a container; return its exit code, output and error output.

        Args:
            namespace: of the pod.
            pod: its name.
            container: which of its containers.
            argv: the command; no shell reads it.
            timeout: seconds until it is given up; the command itself may go on in the container.

        Raises:
            Unavailable: the time is over or the connection was lost.
            ApiError: the pod or the container is not there, or not running.
        """
        return await execute(self._transport, (namespace, pod, container), argv, timeout)

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            async with self._transport.call(method, path, **options) as response:
                body = await response.read()
            return _object(method, path, body)

        return await tried(once, self.pace)

    async def _chunks(
        self, path: str, params: Params, *, silence: float | None, counted: bool
    ) -> AsyncGenerator[bytes | None, None]:
        """Yield the bytes of an answer; None last when the connection was lost."""

        async def opened() -> tuple[AsyncExitStack, aiohttp.ClientResponse]:
            stack = AsyncExitStack()
            response = await stack.enter_async_context(self._transport.stream(path, params=params, counted=counted))
            return stack, response

        stack, response = await tried(opened, self.pace)
        async with stack:
            while True:
                try:
                    async with asyncio.timeout(silence):
                        with passing_faults("GET", path):
                            chunk = await response.content.readany()
                except TimeoutError:
                    raise Silent(f"nothing came from the API server for {silence:g} s on GET {path}.") from None
                except Unavailable:
                    yield None
                    return
                if not chunk:
                    return
                yield chunk


def _pairs(params: Params) -> list[tuple[str, str]]:
    return list(params.items() if isinstance(params, Mapping) else params or [])


def _checked(dry_run: bool) -> dict[str, str]:
    return {**_FIELD_VALIDATION, "dryRun": "All"} if dry_run else _FIELD_VALIDATION


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _object(method: str, path: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"the answer to {method} {path} is no object: a proxy may have given it.")
    return found


def _event(path: str, line: bytes | bytearray) -> dict[str, Any]:
    event = _object("GET", path, bytes(line))
    if event.get("type") == "ERROR":
        status = event.get("object") or {}
        if status.get("reason") == "Expired":  # older servers send it without the code
            raise Expired(f"the version to go on from is no longer kept for {path}.", status=410, reason="Expired")
        raise error_of_status("GET", path, status)
    return event
