"""A control plane as the tests hold it: start, stop, faults, and what was asked of its API server."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "scripts" / "control-plane"

Part = Literal[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "fake-kubelet",
    "fake-ray",
    "training-operator",
    "kuberay",
    "kueue",
    "forward",
    "node",
]


class ControlPlaneError(AssertionError):
    """scripts/control-plane failed; the message is what it said."""


def run(*arguments: str | Path, timeout: float = 3600) -> str:
    """Run scripts/control-plane and return its output."""
    done = subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise ControlPlaneError(f"control-plane {' '.join(map(str, arguments))}: {done.stdout}")
    return done.stdout


@dataclass(frozen=True)
class Request:
    """One request to the API server, from its audit log.

    Attributes:
        agent: User-Agent.
        user: Who asked.
        verb: get, list, watch, create, update, patch, delete, deletecollection.
        resource: Plural with its subresource ("pods", "pods/log"), "" for what is no resource (/version, /apis).
        namespace: "" for the whole cluster.
        name: "" for a collection.
        uri: Path and query as asked.
        code: HTTP status of the answer.
        time: When it was received, as the log writes it (sorts as text).
    """

    agent: str
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    uri: str
    code: int
    time: str


def _request(event: dict[str, Any]) -> Request:
    ref = event.get("objectRef") or {}
    resource = "/".join(part for part in (ref.get("resource", ""), ref.get("subresource", "")) if part)
    return Request(
        agent=event.get("userAgent", ""),
        user=event["user"].get("username", ""),
        verb=event["verb"],
        resource=resource,
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        uri=event["requestURI"],
        code=(event.get("responseStatus") or {}).get("code", 0),
        time=event["requestReceivedTimestamp"],
    )


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane.

    Attributes:
        kubeconfig: Admin of the whole cluster.
        state: Its folder; None when somebody else runs it: then there are no faults and no audit log.
    """

    kubeconfig: Path
    state: Path | None = None

    @property
    def folder(self) -> Path:
        """The state folder; raises AssertionError for a control plane that somebody else runs."""
        assert self.state is not None, "only a control plane that the tests started can be disturbed or audited"
        return self.state

    def pause(self, part: Part) -> None:
        """Stop a part from running at all, as a machine that hangs; `resume` lets it go on."""
        run("part", self.folder, part, "pause")

    def resume(self, part: Part) -> None:
        """Let a paused part go on."""
        run("part", self.folder, part, "resume")

    def kill(self, part: Part) -> None:
        """End a part at once; `start` brings it back."""
        run("part", self.folder, part, "kill")

    def start(self, part: Part) -> None:
        """Start a part that was killed, with the same data."""
        run("part", self.folder, part, "start")

    def restart(self, part: Part) -> None:
        """End a part at once and start it again; returns before it is ready."""
        self.kill(part)
        self.start(part)

    @contextmanager
    def paused(self, part: Part) -> Iterator[None]:
        """Keep a part paused for a while."""
        self.pause(part)
        try:
            yield
        finally:
            self.resume(part)

    def in_node(self, *command: str) -> str:
        """Run a command inside the real node's namespaces."""
        return run("node", self.folder, *command, timeout=60)

    def forget(self) -> None:
        """Restart the API server without any old versions: pages and watches from before get 410 (Gone).

        Compaction alone would not do: the API server answers such requests from its own memory.
        """
        self.kill("kube-apiserver")
        run("compact", self.folder, timeout=60)
        self.start("kube-apiserver")

    def requests(self, agent: str = "") -> Iterator[Request]:
        """Yield the requests so far whose User-Agent contains `agent`; a watch or followed log once it began."""
        seen = set()
        with (self.folder / "audit.log").open(encoding="utf-8") as lines:
            for line in lines:
                if agent not in line or not line.endswith("\n"):
                    continue
                event = json.loads(line)
                if event["auditID"] not in seen and agent in event.get("userAgent", ""):
                    seen.add(event["auditID"])  # what takes long is written down when it begins and when it ends
                    yield _request(event)

    def counted(self, agent: str = "") -> Counter[tuple[str, str]]:
        """Return how many requests there were, by (verb, resource)."""
        return Counter((request.verb, request.resource) for request in self.requests(agent))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel sets it free when this process ends, however it ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
