"""Serves a fake platform on the loopback interface, in a thread of its own or as a program."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import uvicorn

from tests.platform.platform import Platform

T = TypeVar("T")


class Server(uvicorn.Server):
    """Says when it can be reached."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.reachable = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind, then say so."""
        await super().startup(sockets)
        self.reachable.set()


def make_server(platform: Platform, port: int) -> Server:
    """Return a server that is not running yet; port 0 takes a free one."""
    # imported here: most tests that know of the platform start none, and FastAPI takes a second
    from tests.platform.app import create_app

    config = uvicorn.Config(
        create_app(platform), host="127.0.0.1", port=port, log_level="warning", access_log=False, lifespan="on",
        timeout_graceful_shutdown=1, ws="none", date_header=False,
    )  # fmt: skip
    return Server(config)


class RunningPlatform:
    """A platform that serves while it is open; use it as a context manager.

    Example:
        with RunningPlatform(Platform(folder)) as running:
            print(running.url)
    """

    def __init__(self, platform: Platform, port: int = 0) -> None:
        self.platform = platform
        self._server = make_server(platform, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="fake-platform", daemon=True)

    def __enter__(self) -> RunningPlatform:
        self._thread.start()
        assert self._server.reachable.wait(30), "the fake platform does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(60)

    @property
    def url(self) -> str:
        """The base URL, as a connection's host."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/sfapi"

    def call(self, work: Callable[[], T]) -> T:
        """Run something in the server's own loop, where its objects may be touched, and return the result."""

        async def run() -> T:
            return work()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    def change(self, **control: Any) -> None:
        """Change what `Control` names."""
        from tests.platform.control import Control

        self.call(lambda: self.platform.change(Control.model_validate(control)))

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()
