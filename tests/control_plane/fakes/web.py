"""The HTTP server that both fakes are."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Answers(BaseHTTPRequestHandler):
    """Answers GET, POST and DELETE alike; a subclass says with what."""

    def handle_request(self, parts: list[str]) -> None:
        """Answer one request whose path has these parts."""
        raise AssertionError(f"no answer to {parts}")

    def do_GET(self) -> None:  # the name that http.server looks for
        self.handle_request(urlsplit(self.path).path.strip("/").split("/"))

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the parent's name for it
        """Keep the log for errors."""

    def reply(self, code: int, body: Any) -> None:
        """Send text as it is, anything else as JSON."""
        text = isinstance(body, str)
        data = (body if text else json.dumps(body)).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class WebServer(ThreadingHTTPServer):
    """One thread for each request."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go away in the middle of an answer."""
