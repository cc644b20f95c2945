"""A way to the API server that can be made bad: it swallows, cuts or refuses what a client sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class BadWay:
    """A TCP proxy in the test's own event loop, in front of the API server.

    Attributes:
        kubeconfig: Leads through the proxy.
        connections: How many connections there have been.
    """

    def __init__(self, kubeconfig: Path, upstream: int) -> None:
        self.kubeconfig = kubeconfig
        self.connections = 0
        self._upstream = upstream
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def swallow(self) -> None:
        """Pass nothing on any more, and say nothing: a black hole. Connections stay open."""
        self._open.clear()

    def heal(self) -> None:
        """Pass everything on again, with what was swallowed."""
        self._refusing = False
        self._open.set()

    def cut(self) -> None:
        """Break every connection; new ones work."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def refuse(self) -> None:
        """Break every connection, and each new one at once, until `heal`."""
        self._refusing = True
        self.cut()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # one end broke off, on purpose here
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, in a task that `end` waits for."""
        task = asyncio.get_running_loop().create_task(self._pass_on(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def end(self) -> None:
        """Break every connection, and return once each is closed."""
        self.heal()
        self.cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            writer.transport.abort()
            return
        inner_reader, inner = await asyncio.open_connection("127.0.0.1", self._upstream)
        self._writers |= {writer, inner}
        try:
            await asyncio.gather(self._pump(reader, inner), self._pump(inner_reader, writer))
        finally:
            self._writers -= {writer, inner}
            for one in (inner, writer):
                one.transport.abort()
                with contextlib.suppress(OSError):
                    await one.wait_closed()


def _redirected(kubeconfig: Path, port: int, out: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    out.touch(0o600)
    out.write_text(json.dumps(config))


@asynccontextmanager
async def bad_way(kubeconfig: Path, folder: Path) -> AsyncIterator[BadWay]:
    """Open a proxy in front of a kubeconfig's API server; the kubeconfig that leads through it is in the folder."""
    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    server = config["clusters"][0]["cluster"]["server"]
    way = BadWay(folder / "kubeconfig-bad-way", urlsplit(server).port or 443)
    proxy = await asyncio.start_server(way.take, "127.0.0.1", 0)
    await asyncio.to_thread(_redirected, kubeconfig, proxy.sockets[0].getsockname()[1], way.kubeconfig)
    try:
        yield way
    finally:
        proxy.close()
        await way.end()
