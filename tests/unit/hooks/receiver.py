"""A real HTTP server that keeps what it is sent: the other end of an alert."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Messages as apprise's `json://` sends them: title, message, type."""

    def __init__(self, port: int) -> None:
        self.messages: list[dict[str, Any]] = []
        self.port = port
        self.release = threading.Event()
        self.answer = 200

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}"


@contextlib.contextmanager
def receiving(*, hold: bool = False) -> Iterator[Receiver]:
    """Serve on a free port; with `hold`, no request is answered before the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.messages.append(json.loads(body))
            if hold:
                receiver.release.wait(30)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(receiver.answer)
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
