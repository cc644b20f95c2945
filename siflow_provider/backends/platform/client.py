"""One signed HTTP client per connection: short timeouts, an explicit proxy, retries that do no harm.

A call that may be repeated is repeated on timeouts, lost connections, 408, 425, 429 and 5xx, each time signed anew. A
creation is sent once: the platform takes no idempotency key, so that a second one could make a second task (source: the
vendor's Python SDK 0.2.9, `_base_client.py`, which does repeat it).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx

from siflow_provider.backends.platform.answers import Answer, described, read_answer
from siflow_provider.backends.platform.connect import make_http, told_proxy
from siflow_provider.backends.platform.errors import AnswerLost, Unreadable
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.signing import signed_headers
from siflow_provider.errors import AccessDenied, BackendUnavailable
from siflow_provider.spec.hidden import MASK

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["PAGE_SIZE", "SKEW_SECONDS", "Client"]

SKEW_SECONDS = 60.0
"""How far clocks may differ before that is told; what the platform allows is not documented."""

PAGE_SIZE = 500
"""Rows asked for at once; users of the platform ask for up to 600."""
_LONGEST_PAUSE = 8.0
_LONGEST_RETRY_AFTER = 60.0
_MOST_PAGES = 2000
"""Of one list: a million rows, where the platform gives as many as are asked for."""
_MAY_HAVE_WORKED = frozenset({408, 409})
_TOO_MANY = 429
_SERVER_ERROR = 500


class Client:
    """Speaks to one base URL, region and cluster with one key pair.

    Args:
        settings: the connection's; `host` is the base URL, such as `https://console.siflow.cn/sfapi`.
        pace: timeouts and retries.

    Attributes:
        skew_seconds: this machine's clock less the platform's, by the last answer; None before one.
        requests: how many attempts were sent.

    Raises:
        UsageError: the connection lacks the base URL, the access key or its secret.
    """

    def __init__(self, settings: Settings, pace: Pace) -> None:
        self._http = make_http(settings, pace)
        self._settings, self._pace = settings, pace
        self._secret = settings.password.reveal() if settings.password is not None else ""
        self.skew_seconds: float | None = None
        self.requests = 0

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Read something; repeated when the platform gives no answer.

        Raises:
            BackendError: the platform's answer is no, or does not come.
        """
        return await self._patiently("GET", path, params=_query(params))

    async def act(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Do something that does no harm when it is done twice: a stop, a deletion.

        Raises:
            BackendError: the platform's answer is no, or does not come.
        """
        return await self._patiently(method, path, json=body)

    async def create(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str], secrets: Iterable[str]
    ) -> Answer:
        """Send a creation, once.

        Args:
            path: below the base URL.
            body: the whole body, hidden values among it.
            headers: more headers.
            secrets: texts of the body that no error may repeat.

        Raises:
            AnswerLost: it may have taken effect: look before another one is sent.
            BackendUnavailable: it was not sent, or was turned away (429): another try is safe.
            BackendError: the platform's answer is no.
        """
        what = f"POST {path}"
        try:
            response = await self._send("POST", path, json=dict(body), headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise self._no_answer(what, error) from None
        except httpx.HTTPError as error:
            raise AnswerLost(f"{what}: the answer did not come ({_told(error)}).") from None
        text = self._masked(response.text, secrets)
        if response.status_code in _MAY_HAVE_WORKED or response.status_code >= _SERVER_ERROR:
            raise AnswerLost(f"{what}: {described(response.status_code, text)}.")
        try:
            answer = self._read(what, response.status_code, text)
        except Unreadable as error:
            raise AnswerLost(f"{what}: {error.message}") from None
        if not answer.data or not isinstance(answer.data, str):
            raise AnswerLost(f"{what}: the answer holds no task id ({answer.ids or 'no ids'}).")
        return answer

    async def pages(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncGenerator[Answer]:
        """Yield the pages of a list, until all rows have come.

        A page may be shorter than asked for, where the platform caps it: `total` tells then; a list without it has
        ended when a page brings nothing new.

        Raises:
            BackendError: the platform gives no answer, or a list that has no end.
        """
        seen = 0
        before: list[Any] = []
        for number in range(1, _MOST_PAGES + 1):
            answer = await self.get(path, {**(params or {}), "page": number, "pageSize": PAGE_SIZE})
            rows = answer.rows
            keys = [row.get("uuid") or row.get("id") or row for row in rows]
            if keys == before:
                return  # nothing, or a list that comes whole whatever page is asked for
            yield answer
            seen, before = seen + len(rows), keys
            if answer.total is not None and seen >= answer.total >= len(rows):
                return
        raise Unreadable(
            f"GET {path}: {_MOST_PAGES} pages have come, {seen} rows, and each brings other rows than the one before: "
            "the platform's list has no end.",
            hint="Tell the platform's support; does it take the page's number from `page`?",
        )

    async def rows(self, path: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return all rows of all pages."""
        return [row async for page in self.pages(path, params) for row in page.rows]

    async def _patiently(self, method: str, path: str, **request: Any) -> Answer:
        what = f"{method} {path}"
        for attempt in range(1, self._pace.tries + 1):
            last = attempt == self._pace.tries
            try:
                response = await self._send(method, path, **request)
            except httpx.HTTPError as error:
                if last:
                    raise self._no_answer(what, error) from None
                await asyncio.sleep(self._pause(attempt, None))
                continue
            if last or not _is_passing(response):
                try:
                    return self._read(what, response.status_code, self._masked(response.text, ()))
                except Unreadable:  # half an answer: the next one may be whole
                    if last:
                        raise
            await asyncio.sleep(self._pause(attempt, response.headers.get("Retry-After")))
        raise BackendUnavailable(f"{what}: no try is allowed.")

    def _read(self, what: str, code: int, text: str) -> Answer:
        try:
            return read_answer(what, code, text)
        except AccessDenied as error:
            if self.skew_seconds is None or abs(self.skew_seconds) < SKEW_SECONDS:
                raise
            off = (
                f"This machine's clock is {self.skew_seconds:+.0f} s off the platform's, and signatures carry the time."
            )
            raise AccessDenied(f"{error.message} {off}", hint="Set the clock (NTP).", detail=error.detail) from None

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **request: Any
    ) -> httpx.Response:
        self.requests += 1
        signed = {**(headers or {}), **signed_headers(self._settings.login, self._secret)}
        response = await self._http.request(method, self._settings.host.rstrip("/") + path, headers=signed, **request)
        self._note_skew(response)
        return response

    def _no_answer(self, what: str, error: httpx.HTTPError) -> BackendUnavailable:
        where = f"{self._settings.host}{told_proxy(self._settings)}"
        hint = "Check the network, the base URL and `proxy` in the connection."
        return BackendUnavailable(f"{what}: no answer from {where} ({_told(error)}).", hint=hint)

    def _pause(self, attempt: int, retry_after: str | None) -> float:
        if retry_after is not None and retry_after.strip().isdigit() and int(retry_after) > 0:
            return min(float(retry_after), _LONGEST_RETRY_AFTER) * random.uniform(1.0, 1.2)
        return min(self._pace.first_pause * 2.0 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)

    def _note_skew(self, response: httpx.Response) -> None:
        try:
            theirs = parsedate_to_datetime(response.headers["Date"])
        except (KeyError, ValueError, TypeError):
            return
        self.skew_seconds = (datetime.now(UTC) - theirs).total_seconds()

    def _masked(self, text: str, secrets: Iterable[str]) -> str:
        """Return an answer's text without secrets: a platform that refuses a body may repeat it."""
        for secret in (self._secret, *secrets):
            if secret:
                text = text.replace(secret, MASK)
        return text


def _query(params: Mapping[str, Any] | None) -> dict[str, str]:
    """Write a query as the platform reads it: arrays joined by commas, booleans in small letters."""
    out = {}
    for name, value in (params or {}).items():
        if isinstance(value, bool):
            out[name] = str(value).lower()
        elif isinstance(value, list | tuple):
            out[name] = ",".join(map(str, value))
        elif value is not None:
            out[name] = str(value)
    return out


def _is_passing(response: httpx.Response) -> bool:
    """Say whether the same request may be answered later; the platform's own word on it goes first."""
    word = response.headers.get("x-should-retry")
    if word in {"true", "false"}:
        return bool(word == "true")
    return response.status_code in {408, 425, _TOO_MANY} or response.status_code >= _SERVER_ERROR


def _told(error: httpx.HTTPError) -> str:
    # without its text where that may hold a proxy's URL with its password
    return type(error).__name__ if isinstance(error, httpx.ProxyError) else f"{type(error).__name__} {error}".strip()
