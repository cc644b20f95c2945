"""Runs a command in a container over the API server's WebSocket.

source: Kubernetes v1.36 `staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go` (v4.channel.k8s.io)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import aiohttp

from siflow_provider.backends.kubernetes.cluster.errors import ApiError, Unavailable
from siflow_provider.backends.kubernetes.cluster.resources import PODS

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.transport import Transport

__all__ = ["execute"]

_PROTOCOL = "v4.channel.k8s.io"
_STDOUT, _STDERR, _RESULT = 1, 2, 3
_MOST_BYTES = 4 * 2**20
"""What is kept of one output; the rest is read and dropped."""


async def execute(
    transport: Transport, place: tuple[str, str, str], argv: Sequence[str], seconds: float
) -> tuple[int, str, str]:
    """Return exit code, output and error output; `Api.execute` is the public door."""
    namespace, pod, container = place
    path = PODS.path(namespace, pod, "exec")
    params = [("container", container), ("stdout", "1"), ("stderr", "1"), *(("command", word) for word in argv)]
    read = {_STDOUT: bytearray(), _STDERR: bytearray(), _RESULT: bytearray()}
    try:
        async with asyncio.timeout(seconds), transport.web_socket(path, params, (_PROTOCOL,)) as socket:
            async for message in socket:
                _keep(message, read)
    except TimeoutError:
        raise Unavailable(f"the command {argv[0]!r} in {pod}/{container} did not end in {seconds:g} s.") from None
    code = _exit_code(bytes(read[_RESULT]), f"{argv[0]!r} in {pod}/{container}")
    return code, read[_STDOUT].decode(errors="replace"), read[_STDERR].decode(errors="replace")


def _keep(message: aiohttp.WSMessage, read: dict[int, bytearray]) -> None:
    if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
        return
    kept = read.get(message.data[0])
    if kept is not None and len(kept) < _MOST_BYTES:
        kept += message.data[1:]


def _exit_code(result: bytes, what: str) -> int:
    if not result:
        raise Unavailable(f"the connection was lost while {what} ran.")
    status = json.loads(result)
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        return int(status["details"]["causes"][0]["message"])
    said = str(status.get("message") or "")
    raise ApiError(f"{what} could not be run: {said}.", detail=said, status=int(status.get("code") or 0))
