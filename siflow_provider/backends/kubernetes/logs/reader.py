"""Reads one pod: its containers one after another, each across as many connections as it takes.

A connection may end at any moment and for any reason; that says nothing about the container. All of a log is known to
be read when a connection that was opened after the container had ended was read to its end.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from siflow_provider.backends.kubernetes.cluster.errors import Invalid, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import PODS
from siflow_provider.backends.kubernetes.logs.pods import (
    Stage,
    is_cut_off,
    is_over,
    is_silent,
    is_unmade,
    log_containers,
    stage_of,
)
from siflow_provider.backends.kubernetes.logs.position import Position
from siflow_provider.backends.kubernetes.logs.repeats import RepeatFilter
from siflow_provider.backends.kubernetes.logs.splitter import LineSplitter
from siflow_provider.backends.kubernetes.state.objects import dig, uid
from siflow_provider.core.patience import pause_seconds
from siflow_provider.core.status import LogLine
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from siflow_provider.backends.kubernetes.logs.contact import Contact
    from siflow_provider.backends.kubernetes.logs.view import PodView
    from siflow_provider.core.veil import Veil

__all__ = ["LogApi", "PodReader", "Reading"]

_SILENCE_SECONDS = 300.0
"""A connection may die without a word; so long after the last byte a new one is opened."""
_SUSPECT_BYTES, _SUSPECT_SILENCE_SECONDS = 1024 * 1024, 15.0
"""A kubelet that is behind when a log is rotated stays with the old file until the container ends. Logs are rotated
when they have grown, so a connection that carried much is replaced sooner once it is silent."""
_LAST_SILENCE_SECONDS = 10.0
_BLOCK = 32 * 1024
"""Bytes that are cut into lines in one go, while nothing else happens in the event loop."""
_PATIENT_TRIES = 2
_LONGEST_PAUSE = 10.0
_DELETION_SECONDS = 5.0


class LogApi(Protocol):
    """What is needed of the API server."""

    async def get(self, path: str) -> dict[str, Any]:
        """Return an object."""
        ...

    def stream(self, path: str, params: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a log."""
        ...


@dataclass(frozen=True)
class Reading:
    """What the readers of one run share.

    Attributes:
        api: the API server.
        namespace: of the pods.
        view: the pods.
        contact: who can read at the moment.
        put: takes lines; waits while there are too many.
        follow: False to read what is there now.
        veil: over the run's hidden values.
    """

    api: LogApi
    namespace: str
    view: PodView
    contact: Contact
    put: Callable[[list[LogLine]], Awaitable[None]]
    follow: bool
    veil: Veil


class _Outcome(Enum):
    READ = auto()
    """To the end of what the server had."""
    CUT = auto()
    REFUSED = auto()
    """The kubelet has no log to give, or gave its own words instead."""
    GONE = auto()
    CUT_OFF = auto()
    """The run is over, and the node that has the log does not answer."""


class PodReader:
    """Reads one pod as one replica, from a position on.

    Attributes:
        position: behind which line it stands; None before the first.
    """

    def __init__(self, reading: Reading, pod_uid: str, replica: str, after: Position | None) -> None:
        self._reading, self._view = reading, reading.view
        self._uid, self._replica = pod_uid, replica
        self.position = after if after is not None and after.uid == pod_uid else None
        self._path = PODS.path(reading.namespace, str(dig(self._view.pod(pod_uid), "metadata", "name")))
        self._whole = False
        self._failures, self._refusals, self._idle, self._words = 0, 0, 0, ""
        self._repeats = RepeatFilter() if replica.startswith("submitter-") else None
        self._scope: asyncio.Timeout | None = None
        self._heard, self._carried = 0.0, 0

    async def run(self) -> None:
        """Read all containers; return when no more of the pod is to be had."""
        containers = log_containers(self._view.pod(self._uid), self._replica)
        at = self.position.container if self.position is not None else ""
        known = [name for name, _ in containers]
        for name, initial in containers[known.index(at) if at in known else 0 :]:
            await self._read(name, f"[init {name}] " if initial else "")
        if self._repeats is not None and (rest := self._repeats.rest()):
            await self._reading.put(rest)
        self._reading.contact.leave(self._replica)

    def nudge(self) -> None:
        """Think again how long to wait for the server: the pod or the run has changed."""
        if self._scope is not None:
            self._scope.reschedule(self._heard + self._limit())

    async def _read(self, name: str, label: str) -> None:
        self._whole, self._failures, self._refusals, self._idle = False, 0, 0, 0
        stage = Stage.OPEN
        while True:
            before_it, stage = stage, stage_of(self._view.pod(self._uid), name)
            patience, silent = self._view.patience(self._uid), is_silent(self._view.pod(self._uid), name)
            if self._has_nothing(name, stage, before_it):
                return
            if stage is Stage.WAITING or silent:
                if not self._reading.follow or patience == 0:
                    return
                self._reading.contact.leave(self._replica)
                await self._view.changed(patience)
                continue
            last = stage is Stage.ENDED or patience == 0 or not self._reading.follow
            before = self.position
            outcome = await self._attempt(name, label, last=last, complete=stage is Stage.ENDED)
            if outcome is _Outcome.GONE:
                await self._say_farewell(name)
                return
            if outcome is _Outcome.CUT_OFF:
                await self._say("its node does not answer; its last lines may be missing")
                return
            if last and await self._is_enough(outcome, name):
                return
            self._idle = self._idle + 1 if self.position == before else 0
            await self._pause(outcome)

    def _has_nothing(self, name: str, stage: Stage, before_it: Stage) -> bool:
        """Say whether there is nothing to read of a container, and will not be."""
        pod = self._view.pod(self._uid)
        if stage is not Stage.ENDED:
            return stage is Stage.NEVER
        return is_silent(pod, name) or (before_it is Stage.WAITING and is_unmade(pod, name))

    async def _attempt(self, name: str, label: str, *, last: bool, complete: bool) -> _Outcome:
        contact = self._reading.contact
        contact.enter(self._replica)
        try:
            return await self._stream(name, label, last=last, complete=complete or (last and self._reading.follow))
        except NotFound:
            return _Outcome.GONE
        except Invalid as error:
            self._words = error.detail or error.message
            return _Outcome.REFUSED
        except BackendUnavailable as error:
            self._failures += 1
            if self._failures >= _PATIENT_TRIES:
                if self._view.ended and is_cut_off(self._view.pod(self._uid)):
                    return _Outcome.CUT_OFF
                await self._go_blind(error)
            return _Outcome.CUT

    async def _stream(self, name: str, label: str, *, last: bool, complete: bool) -> _Outcome:
        """Read one connection to its end."""
        after = self.position if self.position is not None and self.position.container == name else None
        splitter = LineSplitter(self._replica, self._uid, name, after=after, label=label, veil=self._reading.veil)
        checked, self._carried = False, 0
        async with aclosing(self._reading.api.stream(f"{self._path}/log", _query(name, after, follow=not last))) as log:
            while chunk := await self._next(log):
                if not checked and await self._is_another():
                    return _Outcome.GONE
                checked, self._carried = True, self._carried + len(chunk)
                self._sees()
                for start in range(0, len(chunk), _BLOCK):
                    await self._put(splitter.feed(chunk[start : start + _BLOCK]))
                if not last and self._is_left_behind():
                    return _Outcome.CUT
        if chunk is None:
            return _Outcome.CUT
        self._sees()
        if last:
            await self._put(splitter.finish(complete=complete))
        self._whole, self._words = not splitter.words, splitter.words
        return _Outcome.READ if self._whole else _Outcome.REFUSED

    async def _next(self, log: AsyncGenerator[bytes, None]) -> bytes | None:
        """Return the next bytes, b"" at the end, None when nothing came for too long."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        try:
            async with asyncio.timeout_at(self._heard + self._limit()) as self._scope:
                return await anext(log, b"")
        except TimeoutError:
            return None
        finally:
            self._scope = None

    def _limit(self) -> float:
        patience = self._view.patience(self._uid)
        if patience is None:
            return _SUSPECT_SILENCE_SECONDS if self._carried >= _SUSPECT_BYTES else _SILENCE_SECONDS
        return min(_SILENCE_SECONDS, patience) if patience else _LAST_SILENCE_SECONDS

    def _is_left_behind(self) -> bool:
        """Say whether the container goes on although its run has ended, and nobody waits for more."""
        view, pod = self._view, self._uid
        return view.patience(pod) == 0 and not view.is_gone(pod) and not is_over(view.pod(pod))

    async def _is_another(self) -> bool:
        """Say whether the name belongs to another pod by now: what was opened could be that one's log."""
        try:
            return uid(await self._reading.api.get(self._path)) != self._uid
        except NotFound:
            return False

    async def _is_enough(self, outcome: _Outcome, name: str) -> bool:
        """Say whether the last reading of a container is not to be done again."""
        if outcome is not _Outcome.REFUSED:
            return outcome is _Outcome.READ
        self._refusals += 1
        if self._refusals > _PATIENT_TRIES:
            await self._say(f"the node does not give the log of container {name}: {self._words}")
        return self._refusals > _PATIENT_TRIES

    async def _pause(self, outcome: _Outcome) -> None:
        """Wait before the next connection: not long, or until the pod itself has changed."""
        if outcome is _Outcome.CUT:
            seconds = pause_seconds(self._failures) if self._failures else 0.0
        else:
            seconds = min(_LONGEST_PAUSE, 2.0 ** min(self._idle, 8) / 2)
        before, loop = self._view.version(self._uid), asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._view.version(self._uid) == before and (left := until - loop.time()) > 0:
            await self._view.changed(left)

    def _sees(self) -> None:
        self._failures = 0
        self._reading.contact.see(self._replica)

    async def _go_blind(self, error: BackendUnavailable) -> None:
        if not self._reading.follow:
            raise error
        if self._reading.contact.lose(self._replica, error):
            await self._say(f"its log can't be read at the moment: {error.message}")

    async def _say_farewell(self, name: str) -> None:
        """Say that lines may be missing, unless the log was read to the end of a container that ended first."""
        until = asyncio.get_running_loop().time() + _DELETION_SECONDS
        while not self._view.is_gone(self._uid) and (left := until - asyncio.get_running_loop().time()) > 0:
            await self._view.changed(left)
        if not (self._whole and stage_of(self._view.pod(self._uid), name) is Stage.ENDED):
            await self._say("its pod is gone; its last lines may be missing")

    async def _say(self, text: str) -> None:
        position = self.position or Position(self._uid)
        await self._reading.put(
            [LogLine(self._replica, f"--- {self._replica}: {text} ---", str(position), remark=True)]
        )

    async def _put(self, lines: list[LogLine]) -> None:
        shown = self._repeats.passed(lines) if self._repeats is not None else lines
        if shown:
            await self._reading.put(shown)
        if lines:
            self.position = Position.parse(lines[-1].position)


def _query(container: str, after: Position | None, *, follow: bool) -> dict[str, str]:
    query = {"container": container, "timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if after is not None and after.since is not None:
        query["sinceTime"] = after.since
    return query
