"""Asks an Airflow for the states of task instances, through its public REST API."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from siflow_provider.cli.leftovers import Instance
from siflow_provider.core.web_address import is_web_address
from siflow_provider.errors import BackendUnavailable, UsageError

if TYPE_CHECKING:
    from siflow_provider.core.origin import Origin
    from siflow_provider.spec.hidden import Hidden

__all__ = ["TOKEN_VARIABLE", "AirflowStates"]

TOKEN_VARIABLE = "SIFLOW_AIRFLOW_TOKEN"
_AT_ONCE = 8
_TIMEOUT_SECONDS = 30.0
_UNAUTHORIZED, _NOT_FOUND = 401, 404


class AirflowStates:
    """One Airflow, version 3. Used as `async with`.

    Args:
        url: the API server's address, as people open it in a browser.
        token: a bearer token of its `/auth/token`; None where it wants none.

    Raises:
        UsageError: the address is none.

    Example:
        async with AirflowStates("https://airflow.example", Hidden(token)) as airflow:
            (await airflow.instance(origin)).state
    """

    def __init__(self, url: str, token: Hidden | None) -> None:
        if not is_web_address(url):
            raise UsageError(
                "--airflow must be the http(s) address of Airflow's API server, without a login.",
                hint=f"Such as https://airflow.example; a token belongs into {TOKEN_VARIABLE}.",
            )
        self._url = url.rstrip("/")
        self._token = token
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        """Ask who is there: a 404 of anything else would look like a task instance that is gone.

        Raises:
            UsageError: there is no Airflow 3, or the token is not accepted.
            BackendUnavailable: no answer.
        """
        import httpx

        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token.reveal()}"}
        self._client = httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_SECONDS)
        try:
            await self._check()
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def instance(self, origin: Origin) -> Instance:
        """Return what Airflow says of the task instance; whatever is no clear answer is `unknown`.

        Raises:
            UsageError: the token is not accepted any more.
        """
        dag, run, task = (quote(part, safe="") for part in (origin.dag_id, origin.run_id, origin.task_id))
        index = f"/{origin.map_index}" if origin.map_index >= 0 else ""
        try:
            status, body = await self._get(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}{index}")
        except BackendUnavailable as error:
            return Instance("unknown", why=str(error))
        try_number, state = body.get("try_number"), body.get("state")
        if status == _NOT_FOUND and "was not found" in str(body.get("detail")):
            return Instance("missing")
        if status != 200 or not isinstance(try_number, int) or not isinstance(state, str | None):  # noqa: PLR2004
            return Instance("unknown", why=f"Airflow answers HTTP {status}")
        return Instance("there", state=state, try_number=try_number, id=str(body.get("id") or ""))

    async def _check(self) -> None:
        status, body = await self._get("version")
        if not str(body.get("version", "")).startswith("3."):
            raise UsageError(
                f"{self._url} is no Airflow 3: it answers HTTP {status} to {self._url}/api/v2/version.",
                hint="Give the address of the API server, with its path where it has one.",
            )
        await self._get("dags?limit=1")  # the version is told to everybody, the token is looked at here

    async def _get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Return the answer's status and its JSON object; {} for a body that is none."""
        import httpx

        async with self._at_once:
            try:
                answer = await self._client.get(f"{self._url}/api/v2/{path}")
            except httpx.HTTPError as error:
                raise BackendUnavailable(f"Airflow at {self._url} gives no answer ({type(error).__name__}).") from None
        if answer.status_code == _UNAUTHORIZED:
            what = "a request without a token" if self._token is None else "the token"
            raise UsageError(
                f"Airflow at {self._url} does not accept {what}.",
                hint=f"Put a token of {self._url}/auth/token into {TOKEN_VARIABLE}.",
            )
        try:
            body = answer.json()
        except ValueError:
            body = None
        return answer.status_code, body if isinstance(body, dict) else {}
