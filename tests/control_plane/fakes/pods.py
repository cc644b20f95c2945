"""What the fakes know of the cluster: every pod by one watch, and single requests; standard library only."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

Pod = dict[str, Any]
ANNOTATION = "fakepod.test/"


def annotation(pod: Pod, name: str, default: str = "") -> str:
    """Return one of the annotations that drive a fake pod."""
    found = pod["metadata"].get("annotations") or {}
    return str(found.get(ANNOTATION + name, default))


class Server:
    """The API server, asked as an admin from inside the control plane's network namespace."""

    def __init__(self) -> None:
        pki = os.environ["PKI"]
        context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
        context.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({})
        )
        self._opener.addheaders = [("User-Agent", "control-plane-fakes")]

    def get(self, path: str) -> Any:
        """Return the object at a path, or None where there is none."""
        try:
            with self._opener.open(f"https://127.0.0.1:6443{path}", timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON lines of a watch until it ends."""
        with self._opener.open(f"https://127.0.0.1:6443{path}", timeout=90) as answer:
            for line in answer:
                yield json.loads(line)


class Pods:
    """All pods, kept up to date by one list and watch in a thread of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pods: dict[str, Pod] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def named(self, namespace: str, name: str) -> Pod | None:
        """Return a pod by name; one that the watch has not brought yet is asked for."""
        with self._changed:
            pod = self._pods.get(f"{namespace}/{name}")
        if pod is not None:
            return pod
        asked: Pod | None = self._server.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return asked

    def first(self, wanted: Callable[[Pod], bool]) -> Pod | None:
        """Return a pod that is as wanted."""
        with self._changed:
            return next((pod for pod in self._pods.values() if wanted(pod)), None)

    def wait(self, seconds: float) -> None:
        """Return when any pod has changed, or after that time."""
        with self._changed:
            self._changed.wait(seconds)

    def _put(self, pod: Pod, *, gone: bool = False) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        with self._changed:
            if gone:
                self._pods.pop(key, None)
            else:
                self._pods[key] = pod
            self._changed.notify_all()

    def _follow(self) -> None:
        listed = self._server.get("/api/v1/pods")
        with self._changed:
            self._pods.clear()
        for pod in listed["items"]:
            self._put(pod)
        version = listed["metadata"]["resourceVersion"]
        for event in self._server.lines(f"/api/v1/pods?watch=1&timeoutSeconds=60&resourceVersion={version}"):
            if event["type"] == "ERROR":
                return
            self._put(event["object"], gone=event["type"] == "DELETED")

    def _run(self) -> None:
        while True:
            try:
                self._follow()
            except (OSError, http.client.HTTPException, ValueError) as error:  # the API server is away, for a test
                print(f"watching pods: {error}")  # noqa: T201  # into the part's log
                time.sleep(0.3)
