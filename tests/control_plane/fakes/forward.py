"""Listens on the machine's loopback and passes each connection on into the control plane's network namespace.

usage: forward.py NETNS LISTEN_PORT TARGET_PORT PORT_FILE

LISTEN_PORT 0 is any free port; the port is written to PORT_FILE. Started again, it takes the port that stands there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from pathlib import Path

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # the other end is gone: the connection is over
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
    finally:
        inner_writer.close()
        writer.close()


async def _serve(listener: socket.socket, port: int) -> None:
    server = await asyncio.start_server(lambda r, w: _pass_on(r, w, port), sock=listener)
    async with server:
        await server.serve_forever()


def main(network: str, listen_port: str, target_port: str, port_file: Path) -> None:
    wanted = int(port_file.read_text()) if port_file.exists() else int(listen_port)
    listener = socket.create_server(("127.0.0.1", wanted), backlog=256)  # stays in the namespace it was made in
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.open(network, os.O_RDONLY), _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), f"can't enter {network}")
    part = port_file.with_suffix(".part")
    part.write_text(str(listener.getsockname()[1]))
    part.rename(port_file)
    asyncio.run(_serve(listener, int(target_port)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
