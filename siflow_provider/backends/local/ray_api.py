"""The few questions that a run asks its own Ray cluster, over the dashboard's REST API on the loopback address.

Synchronous and short: the supervisor has one thread and asks between two steps. No proxy is ever used.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from siflow_provider.errors import BackendUnavailable

__all__ = ["RayApi", "RayJobInfo"]

_ASK_SECONDS = 1.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class RayJobInfo:
    """What Ray says of a job.

    Attributes:
        status: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        message: Ray's own words about it.
        exit_code: the entrypoint's return code as Python counts it (-9 for signal 9); None while it has none.
        driver_pid: process id of the program that joined the cluster, once there is one.
    """

    status: str
    message: str
    exit_code: int | None = None
    driver_pid: int | None = None

    @property
    def ended(self) -> bool:
        """True when the job never changes again."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class RayApi:
    """The REST API of one cluster.

    Args:
        url: the dashboard's address, such as `http://127.0.0.1:8265`.
        token: the cluster's own token; versions before token authentication ignore it.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token

    def alive_nodes(self) -> set[str]:
        """Return the names of the nodes that have joined and live.

        Raises:
            BackendUnavailable: no usable answer now.
        """
        answer = self._ask("GET", "/api/v0/nodes")
        try:
            rows = answer["data"]["result"]["result"]
            return {row["node_name"] for row in rows if row["state"] == "ALIVE"}
        except (KeyError, TypeError) as error:
            raise BackendUnavailable("Ray's list of nodes is not complete yet.") from error

    def find_job(self, submission_id: str) -> RayJobInfo | None:
        """Return the job; None when there is none of this id.

        Raises:
            BackendUnavailable: no usable answer now.
        """
        raw = self._ask("GET", f"/api/jobs/{submission_id}")
        if raw is None:
            return None
        pid = str((raw.get("driver_info") or {}).get("pid") or "")
        return RayJobInfo(
            status=str(raw.get("status") or "PENDING"),
            message=str(raw.get("message") or ""),
            exit_code=raw.get("driver_exit_code"),
            driver_pid=int(pid) if pid.isdigit() else None,
        )

    def stop_job(self, submission_id: str) -> None:
        """Ask for the job's end: SIGTERM to the driver, then SIGKILL.

        Raises:
            BackendUnavailable: no usable answer now.
        """
        self._ask("POST", f"/api/jobs/{submission_id}/stop")

    def _ask(self, method: str, path: str) -> Any:
        """Return the answer as JSON; None for 404."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with _OPENER.open(request, timeout=_ASK_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                raise BackendUnavailable(f"Ray answered HTTP {error.code} to {method} {path}.") from error
        except (OSError, ValueError) as error:
            raise BackendUnavailable(f"Ray does not answer {method} {path}: {error}") from error
