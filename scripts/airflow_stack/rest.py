"""Airflow's REST API as this stack uses it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from scripts.airflow_stack.errors import StackError

__all__ = ["Rest", "wait_until"]

T = TypeVar("T")
_POLL_SECONDS = 0.25


def wait_until(
    look: Callable[[], T | None],
    *,
    timeout: float,
    what: str,
    describe: Callable[[], str] = str,
    pause: float = _POLL_SECONDS,
) -> T:
    """Call `look` until it returns something true, and return that.

    Args:
        look: what is asked.
        timeout: seconds.
        what: "the run ends": what the error says did not happen.
        describe: adds to the error what there is instead.
        pause: seconds between two looks.

    Raises:
        StackError: it did not happen in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise StackError(f"waited {timeout:g} s until {what}; {describe()}")
        time.sleep(pause)


class Rest:
    """A logged-in client.

    Args:
        url: the API server's address.
        login: returns user name and password; both are asked for at the first call.
    """

    def __init__(self, url: str, login: Callable[[], tuple[str, str]]) -> None:
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._login = login

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def health(self) -> dict[str, str]:
        """Return the state of each component as the API server sees it; empty while nobody answers."""
        try:
            answer = self._client.get("/api/v2/monitor/health", timeout=5)
            return {name: str(part.get("status")) for name, part in answer.json().items() if isinstance(part, dict)}
        except (httpx.HTTPError, ValueError):
            return {}

    def build_execution_api(self, timeout: float) -> None:
        """Have the API server build the API that tasks talk to, and wait until it is there.

        Raises:
            StackError: it did not answer within `timeout` seconds.
        """
        try:
            self._client.get("/execution/health", timeout=timeout)
        except httpx.HTTPError as error:
            raise StackError(f"the API for tasks does not answer: {error}") from error

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON under `/api/v2/PATH`."""
        return self.request("GET", path, params=params).json()

    def find(self, path: str, **params: Any) -> Any:
        """Return the JSON under `/api/v2/PATH`, or None where there is nothing (404)."""
        answer = self.request("GET", path, params=params, missing_ok=True)
        return None if answer.status_code == httpx.codes.NOT_FOUND else answer.json()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: dict[str, Any] | None = None,
        missing_ok: bool = False,
        root: str = "api/v2",
    ) -> httpx.Response:
        """Send a request below `/api/v2/`, or below another root: `ui` is what Airflow's own pages ask.

        Raises:
            StackError: the server refused it; its answer is in the text.
        """
        if "Authorization" not in self._client.headers:
            user, password = self._login()
            answer = self._client.post("/auth/token", json={"username": user, "password": password})
            self._client.headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
        answer = self._client.request(method, f"/{root}/{path}", json=json, params=params)
        if answer.is_error and not (missing_ok and answer.status_code == httpx.codes.NOT_FOUND):
            raise StackError(f"{method} {path}: HTTP {answer.status_code} {answer.text[:2000]}")
        return answer
