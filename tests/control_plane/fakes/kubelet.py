"""The log endpoint of the fake nodes: what the API server asks a kubelet for on `kubectl logs [-f]`.

kwok has one of its own, but with follow it never ends the stream when the pod has ended, and it serves fixed files.
Log text: the pod's annotation fakepod.test/logs (one line each), else three made-up lines. Line n comes
n * fakepod.test/log-interval seconds (default 0) after the container started; what is left comes when it ends.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from os import environ
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.control_plane.fakes.pods import Pod, Pods, Server, annotation
from tests.control_plane.fakes.web import Answers, WebServer

_WAITING = {
    "ImagePullBackOff": "trying and failing to pull image",
    "ErrImagePull": "image can't be pulled",
}


class NoLog(Exception):
    """There is no log, in the kubelet's own words."""


@dataclass(frozen=True)
class Log:
    """The whole log of one run of a container, the part that is still to come included."""

    lines: list[tuple[float, str]]
    started: float
    ended: bool


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def _state(pod: Pod, container: str, *, previous: bool) -> dict[str, Any]:
    status = pod["status"]
    every = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
    found: dict[str, Any] = next((one for one in every if one["name"] == container), {})
    state: dict[str, Any] = found.get("lastState" if previous else "state") or {}
    name = pod["metadata"]["name"]
    if previous and not state:
        raise NoLog(f'previous terminated container "{container}" in pod "{name}" not found')
    if not state or "waiting" in state:
        reason = state.get("waiting", {}).get("reason", "ContainerCreating")
        raise NoLog(f'container "{container}" in pod "{name}" is waiting to start: {_WAITING.get(reason, reason)}')
    return state


def read_log(pod: Pod, container: str, *, previous: bool = False) -> Log:
    """Return a container's log; NoLog says why there is none."""
    state = _state(pod, container, previous=previous)
    over = state.get("terminated")
    started = _seconds((over or state["running"])["startedAt"])
    text = annotation(pod, "logs") or "\n".join(
        f"{pod['metadata']['name']} {container}: {word}" for word in ("start", "step 1 loss 0.5", "step 2 loss 0.25")
    )
    every = float(annotation(pod, "log-interval", "0"))
    lines = [(started + number * every, line) for number, line in enumerate(text.rstrip("\n").split("\n"))]
    if over:
        end = _seconds(over["finishedAt"])
        lines = [(min(moment, end), line) for moment, line in lines]
    return Log(lines, started, bool(over))


def _first_line(log: Log, query: dict[str, str]) -> int:
    """Return how many lines the question leaves out."""
    now, since = time.time(), 0.0
    if "sinceSeconds" in query:
        since = now - int(query["sinceSeconds"])
    elif "sinceTime" in query:
        since = _seconds(query["sinceTime"])
    skip = sum(1 for moment, _ in log.lines if moment < since)
    if "tailLines" in query:
        skip = max(skip, sum(1 for moment, _ in log.lines if moment <= now) - int(query["tailLines"]))
    return skip


class Kubelet(Answers):
    """Serves the logs of the fake nodes' pods."""

    pods: Pods

    def handle_request(self, parts: list[str]) -> None:
        if parts == ["healthz"]:
            return self.reply(200, "ok")
        if len(parts) != 4 or parts[0] != "containerLogs":
            return self.reply(404, "the fake kubelet serves logs only")
        query = dict(parse_qsl(urlsplit(self.path).query))
        _, namespace, name, container = parts
        pod = self.pods.named(namespace, name)
        if pod is None:
            return self.reply(404, f'pods "{name}" not found')
        try:
            log = read_log(pod, container, previous=query.get("previous") == "true")
        except NoLog as reason:
            return self.reply(400, str(reason))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        return self._stream((namespace, name, container), log, query)

    def _stream(self, place: tuple[str, str, str], log: Log, query: dict[str, str]) -> None:
        namespace, name, container = place
        left = int(query["limitBytes"]) if "limitBytes" in query else None
        sent = _first_line(log, query)
        while True:
            sent, left = self._send(log, sent, left, stamps=query.get("timestamps") == "true")
            if log.ended or query.get("follow") != "true" or left == 0:
                return
            due = log.lines[sent][0] - time.time() if sent < len(log.lines) else 5.0
            self.pods.wait(min(max(due, 0.02), 5.0))
            pod = self.pods.named(namespace, name)
            if pod is None:
                return
            try:
                now = read_log(pod, container)
            except NoLog:
                return
            # it was started again: send what is left of the log that was asked for
            log = now if now.started == log.started else read_log(pod, container, previous=True)

    def _send(self, log: Log, sent: int, left: int | None, *, stamps: bool) -> tuple[int, int | None]:
        now = time.time()
        for moment, line in log.lines[sent:]:
            if left == 0 or (moment > now and not log.ended):
                break
            data = f"{_stamp(moment)} {line}\n".encode() if stamps else f"{line}\n".encode()
            if left is not None:
                data = data[:left]
                left -= len(data)
            self.wfile.write(data)
            sent += 1
        self.wfile.flush()
        return sent, left


def main() -> None:
    Kubelet.pods = Pods(Server())
    server = WebServer(("0.0.0.0", 10250), Kubelet)  # of the private network namespace
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{environ['PKI']}/server.crt", f"{environ['PKI']}/server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
