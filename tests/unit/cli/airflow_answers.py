"""A small web server that answers as Airflow's REST API does: states that a real Airflow is not brought into soon."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

__all__ = ["TOKEN", "AirflowAnswers"]

TOKEN = "token-of-the-test"


class AirflowAnswers:
    """Answers on a free port, as `with`.

    Attributes:
        instances: path below `/api/v2/dags/`, unquoted -> HTTP status and body; others are not found.
        version: what it says it is.
        asked: the paths asked for, in order.
    """

    def __init__(self, version: str = "3.1.0") -> None:
        self.instances: dict[str, tuple[int, dict[str, Any]]] = {}
        self.version = version
        self.asked: list[str] = []

    def put(
        self,
        dag: str,
        run: str,
        task: str,
        state: str | None,
        *,
        try_number: int = 1,
        index: int = -1,
        own_id: str = "i",
    ) -> None:
        """Have a task instance."""
        path = _path(dag, run, task) + (f"/{index}" if index >= 0 else "")
        self.instances[path] = 200, {"state": state, "try_number": try_number, "id": own_id}

    def refuse(self, dag: str, run: str, task: str, status: int) -> None:
        """Answer nothing but an error about a task instance."""
        self.instances[_path(dag, run, task)] = status, {"detail": "no"}

    def __enter__(self) -> Self:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answers._answer(unquote(self.path), self.headers.get("Authorization", ""))
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if path == "/api/v2/version" and self.version:
            return 200, {"version": self.version}
        if authorization != f"Bearer {TOKEN}":
            return 401, {"detail": "Not authenticated"}
        missing = {"detail": "The Task Instance with dag_id: `d`, run_id: `r` and task_id: `t` was not found"}
        return self.instances.get(path, (404, missing))


def _path(dag: str, run: str, task: str) -> str:
    return f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}"
