"""One pooled session with one API server in one event loop; every request of the backend passes here.

Here an answer becomes a response or one of our errors, and a refused login is renewed, once for all who wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp

from siflow_provider.backends.kubernetes.cluster.errors import ApiError, Unavailable, error_of
from siflow_provider.errors import BackendError, BackendUnavailable, SiflowError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.login import Access, Login
    from siflow_provider.backends.kubernetes.cluster.pace import Pace

__all__ = ["Params", "Transport", "passing_faults"]

Params = Mapping[str, str] | list[tuple[str, str]] | None
"""The query of a request."""

log = logging.getLogger(__name__)

_UNAUTHORIZED = 401
_FIRST_REFUSAL = 400
_AGENT = "siflow-provider"
_CLOSING_ROUNDS = 100
_NEXT_TRY_OF_A_LOGIN = 10.0
_KEEPALIVE = {"TCP_KEEPIDLE": 120, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 6}
"""As in the cncf provider (`[kubernetes_executor] tcp_keep_*`)."""


class Transport:
    """Sends requests. Open it with `async with`; it belongs to the loop that opened it.

    Args:
        login: how to log in.
        pace: how long to wait for what.
    """

    def __init__(self, login: Login, pace: Pace) -> None:
        self.pace = pace
        self._login = login
        self._access: Access | None = None
        self._renew_at: float | None = None
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._logging_in = asyncio.Lock()
        self._calls = asyncio.Semaphore(pace.calls)
        self._streams = asyncio.Semaphore(pace.streams)

    @property
    def access(self) -> Access:
        """Where the server is, as of the last login."""
        if self._access is None:
            raise BackendError("the connection to the cluster is not open.")
        return self._access

    async def open(self) -> None:
        """Log in.

        Raises:
            UsageError: the connection is wrong.
            BackendError: its plugin can't be used, or gave nothing now (BackendUnavailable).
        """
        self._take(await self._login.enter())
        timeout = aiohttp.ClientTimeout(total=None, connect=self.pace.connect, sock_read=self.pace.answer)
        # bounded by the semaphores; proxies were looked up at login, so that no request reads the environment's files
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=self._socket), timeout=timeout, trust_env=False,
            headers={"User-Agent": _AGENT},
            cookie_jar=aiohttp.DummyCookieJar(),
        )  # fmt: skip

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._until_closed()

    async def _until_closed(self) -> None:
        """Let the loop close the sockets of connections that were broken off: it does so in one of its next rounds."""
        for _ in range(_CLOSING_ROUNDS):
            if all(each.fileno() < 0 for each in self._sockets):
                return
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def call(
        self, method: str, path: str, *, params: Params = None, data: bytes | None = None,
        content_type: str = "application/json", accept: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:  # fmt: skip
        """Send a request whose answer ends soon, and hand out the answer.

        Raises:
            ApiError: the server refused, or there is no usable answer (Unavailable).
        """
        headers = {"Content-Type": content_type, "Accept": accept}
        async with self._calls, self._answer(method, path, params=params, data=data, headers=headers) as response:
            yield response

    @contextlib.asynccontextmanager
    async def stream(self, path: str, *, params: Params, counted: bool) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open an answer that may last for ever: only silence that the caller measures ends it.

        Args:
            path: what to read.
            params: its query.
            counted: wait for one of `Pace.streams` places to open it; False for what is bounded already. The place is
                free again once the answer begins: who waits for a log that never ends would wait for ever.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=self.pace.connect, sock_read=None)
        async with contextlib.AsyncExitStack() as stack:
            async with self._streams if counted else contextlib.nullcontext():
                # the first byte of the answer has its time limit, the rest has none
                response = await stack.enter_async_context(self._answer("GET", path, params=params, timeout=timeout))
            yield response

    @contextlib.asynccontextmanager
    async def web_socket(
        self, path: str, params: Params, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket."""
        with passing_faults("GET", path):
            access = await self._fresh_access()
            try:
                opened = await self._connected(path, params, protocols, access)
            except aiohttp.WSServerHandshakeError as error:
                if error.status != _UNAUTHORIZED:
                    await self._ask_why(path, params)
                    raise error_of("GET", path, error.status, error.message) from None
                opened = await self._connected(path, params, protocols, await self._renewed_access(access))
            async with opened as connected:
                yield connected

    async def _ask_why(self, path: str, params: Params) -> None:
        """Raise what the server says against a request that wanted a WebSocket: with that one its words are lost."""
        try:
            async with self.call("GET", path, params=params):
                pass
        except ApiError as error:
            if "pgrade" not in error.detail:  # "Upgrade request required": now it has nothing else against it
                raise

    async def _connected(
        self, path: str, params: Params, protocols: tuple[str, ...], access: Access
    ) -> aiohttp.ClientWebSocketResponse:
        return await self._opened().ws_connect(
            access.server + path, params=params, protocols=protocols, ssl=access.tls, proxy=access.proxy,
            server_hostname=access.server_name, headers=_authorization(access),
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def _answer(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        with passing_faults(method, path):
            access = await self._fresh_access()
            response = await self._send(method, path, access, options)
            if response.status == _UNAUTHORIZED:
                response.release()
                response = await self._send(method, path, await self._renewed_access(access), options)
            async with response:
                if response.status >= _FIRST_REFUSAL:
                    text = await response.text(errors="replace")
                    raise error_of(method, path, response.status, text, retry_after=_retry_after(response))
                try:
                    yield response
                finally:
                    _hang_up(response)

    async def _send(self, method: str, path: str, access: Access, options: Mapping[str, Any]) -> aiohttp.ClientResponse:
        headers = {**(options.get("headers") or {}), **_authorization(access)}
        async with asyncio.timeout(self.pace.connect + self.pace.answer):
            return await self._opened().request(
                method, access.server + path, ssl=access.tls, proxy=access.proxy, allow_redirects=False,
                server_hostname=access.server_name, **{**options, "headers": headers},
            )  # fmt: skip

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Make a socket on which a peer that is gone is noticed, however long nothing is to be said."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        self._sockets.add(made)
        if self.access.keepalive:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):  # not every system has each of them
                    made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return made

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise BackendError("the connection to the cluster is closed.")
        return self._session

    def _take(self, access: Access) -> None:
        self._access = access
        now = asyncio.get_running_loop().time()
        self._renew_at = None if access.lifetime is None else now + access.lifetime

    async def _fresh_access(self) -> Access:
        """Return the login, renewed where it ends soon; an old one is good as long as the server takes it."""
        loop = asyncio.get_running_loop()
        if self._renew_at is not None and loop.time() >= self._renew_at:
            self._renew_at = loop.time() + _NEXT_TRY_OF_A_LOGIN  # the others go on with what there is
            try:
                async with self._logging_in:
                    self._take(await self._login.enter())
            except SiflowError as error:
                log.debug("the login could not be renewed yet: %s", error)
        return self.access

    async def _renewed_access(self, refused: Access) -> Access:
        """Log in again after `refused` was; of many who showed it, one does it, also for who hears of it late."""
        async with self._logging_in:
            if self.access is refused:
                try:
                    self._take(await self._login.enter())
                except BackendUnavailable as error:
                    raise Unavailable(error.message, hint=error.hint, detail=error.detail) from None
        return self.access


@contextlib.contextmanager
def passing_faults(method: str, path: str) -> Any:
    """Turn lost connections and answers that do not come into `Unavailable`.

    The cause is told in words and not chained: the client library's errors carry the request with its credentials.
    """
    try:
        yield
    except ApiError:
        raise
    except TimeoutError:
        raise Unavailable(f"no answer in time from the API server to {method} {path}.") from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise Unavailable(
            f"the API server at {error.host}:{error.port} shows a certificate that can't be trusted.",
            hint="Check the kubeconfig's certificate authority.", detail=str(error.certificate_error),
        ) from None  # fmt: skip
    except (aiohttp.ClientError, ConnectionError) as error:
        said = str(error) or type(error).__name__
        raise Unavailable(f"no connection to the API server for {method} {path}: {said}.", detail=said) from None


def _authorization(access: Access) -> dict[str, str]:
    return {"Authorization": access.authorization} if access.authorization else {}


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Break the connection of an answer that is left in the middle: TLS would take its leave of who goes on talking."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None
