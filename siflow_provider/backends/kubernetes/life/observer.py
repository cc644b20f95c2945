"""What the process's shared stores show of one run: a change of any of its objects wakes who waits for it.

State is compared and never counted, so an event that was missed costs nothing. Of each kind of object one list and one
watch serve every run that waits in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.resources import (
    EVENTS,
    PODS,
    RAYCLUSTERS,
    WORKLOADS,
    Resource,
    resource_of,
)
from siflow_provider.backends.kubernetes.cluster.shared import ref_key
from siflow_provider.backends.kubernetes.cluster.shelf import keep
from siflow_provider.backends.kubernetes.life.look import get_job, judge, queue_label
from siflow_provider.backends.kubernetes.life.memory import MEMORY
from siflow_provider.backends.kubernetes.queueing.positions import Told
from siflow_provider.backends.kubernetes.queueing.source import positions_of
from siflow_provider.backends.kubernetes.state.objects import Seen, uid
from siflow_provider.backends.kubernetes.state.pulls import PullCounts
from siflow_provider.backends.kubernetes.state.queue import newest_workload, waits_for_its_queue
from siflow_provider.backends.kubernetes.state.status import changes_by_time, phase_of
from siflow_provider.core.status import Phase, Status
from siflow_provider.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.backends.kubernetes.cluster.shelf import Kept
    from siflow_provider.backends.kubernetes.cluster.store import Store
    from siflow_provider.core.status import JobRef

__all__ = ["Observer"]

_SETTLING_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 30.0
_OUTAGE_SECONDS = 5.0
_PLACE_SECONDS = 1.0
"""A place is a hint, told when it comes: a Kueue that restarts leaves the question open for half a minute."""
_UNAUTHORIZED = 401
_ENDS = frozenset({"Succeeded", "Complete", "Failed"})


class Observer:
    """Looks at one run for as long as it is open. Close it when it is needed no more.

    Args:
        cluster: where the run is.
        ref: the run's attempt.
    """

    def __init__(self, cluster: Cluster, ref: JobRef) -> None:
        self._cluster, self._ref, self._stack = cluster, ref, AsyncExitStack()
        self._key = ref_key(ref)
        self._wake = asyncio.Event()
        self._stores: dict[Resource, Store] = {}
        self._subscribed: set[tuple[Resource, str, str]] = set()
        self._blind: set[str] = set()
        self._job: Kept | None = None  # thousands may wait: parsed it would be most of what each of them costs
        self._in_queue = False
        self._gone_at: datetime | None = None
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._pulls = PullCounts()
        self._pause: float | None = None
        self._positions = positions_of(cluster)
        self._line: tuple[str, str, str] | None = None
        self._in_line = ExitStack()
        self._place: Told = (None, "")

    async def close(self) -> None:
        """Leave the stores. Idempotent."""
        self._in_line.close()
        await self._stack.aclose()

    async def changed(self) -> None:
        """Return when anything may be new; after a while too where time alone changes the answer."""
        try:
            async with asyncio.timeout(self._pause):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def status(self) -> Status:
        """Return the snapshot; `unknown` when there is no answer."""
        try:
            await self._subscribe()
            fault = self._fault()
            if fault is not None:
                return self._unknown(fault, _LOOK_AGAIN_SECONDS)  # the store wakes who waits when it sees again
            self._place = await self._ask_place(self._line)
            await self._cluster.turns.mine()
            seen = await self._look()
            if self._is_told_by_events(seen) and await self._follow_events(seen):
                seen = await self._look()
            status = await judge(self._cluster, self._ref, seen)
            if await self._stands_elsewhere(_waits_in(status, seen)):
                status = await judge(self._cluster, self._ref, replace(seen, place=self._place))
        except (BackendUnavailable, Denied) as error:  # a right that is missing now may be given back
            return self._unknown(error)
        self._pause = _pause_of(status, seen)
        return status

    async def _ask_place(self, line: tuple[str, str, str] | None) -> Told:
        return (None, "") if line is None else await self._positions.place(*line, patience=_PLACE_SECONDS)

    async def _stands_elsewhere(self, line: tuple[str, str, str] | None) -> bool:
        """Follow the place in a line, None for none; say whether it is another one than was known."""
        if line == self._line:
            return False
        self._in_line.close()
        self._line = None  # until it is followed: who looks may be cancelled here, and another one begins anew
        before, self._place = self._place, await self._ask_place(line)
        self._line = line
        if line is not None:
            self._in_line.callback(self._positions.follow(*line, self._wake))
        return self._place != before

    def _is_told_by_events(self, seen: Seen) -> bool:
        """Say whether events tell more: why it does not start, or, before its end is judged for good, why it failed."""
        return phase_of(self._ref, seen, datetime.now(UTC)) in {Phase.STARTING, Phase.RETRYING, Phase.FAILED}

    def _unknown(self, error: BackendError, pause: float = _OUTAGE_SECONDS) -> Status:
        self._pause = pause
        return Status(self._ref, Phase.UNKNOWN, reason=str(error))

    def _fault(self) -> BackendError | None:
        return next((store.fault for store in self._stores.values() if store.stale_since and store.fault), None)

    async def _subscribe(self) -> None:
        """See to it that every kind that can tell of the run is watched."""
        ref = self._ref
        await self._follow(resource_of(ref), self._key, ref.name)
        self._take_job()
        await self._follow(PODS, self._key)
        if ref.kind == "RayJob":
            await self._follow(RAYCLUSTERS, self._key)
        if self._in_queue:
            await self._follow(WORKLOADS, ref.uid)

    async def _follow(self, resource: Resource, key: str, name: str = "") -> bool:
        """Subscribe to a key, once; say whether that is new. A kind that may not be seen now is noted as such."""
        if (resource, key, name) in self._subscribed:
            return False
        store = self._stores[resource] = self._cluster.store(resource, self._ref.namespace)
        if resource.plural in self._blind and store.alone is not None:
            return False
        try:
            await store.ready()
            await self._cluster.turns.mine()
            await self._stack.enter_async_context(store.subscribe(key, name=name, wake=self._wake))
        except BackendUnavailable:
            raise
        except BackendError as error:
            if resource is resource_of(self._ref) or not _is_refused(error):
                raise
            self._blind.add(resource.plural)
            return False
        self._blind.discard(resource.plural)
        self._subscribed.add((resource, key, name))
        return True

    async def _follow_events(self, seen: Seen) -> bool:
        uids = [self._ref.uid, *map(uid, (*seen.pods, *seen.clusters))]
        uids += [] if seen.workload is None else [uid(seen.workload)]
        return any([await self._follow(EVENTS, each) for each in uids])

    def _take_job(self) -> None:
        there = self._there()
        if there is not None:
            self._gone_at = None
            self._hold(there)

    def _there(self) -> Kept | None:
        """Return the job as the store shows it."""
        kept = self._stores[resource_of(self._ref)].kept(self._key)
        return next((job for job in kept if job.uid == self._ref.uid), None)

    def _hold(self, job: Kept) -> None:
        if job is not self._job:
            self._job, self._in_queue = job, bool(queue_label(job.object()))

    def _objects(self, resource: Resource, key: str | None = None) -> tuple[dict[str, Any], ...]:
        store = self._stores.get(resource)
        return () if store is None else store.objects(key or self._key)

    async def _look(self) -> Seen:
        self._take_job()
        self._pods.update((uid(pod), pod) for pod in self._objects(PODS))
        job = await self._living_job()
        workload = newest_workload(self._objects(WORKLOADS, self._ref.uid))
        events = [
            event
            for resource, key, _ in sorted(self._subscribed, key=str)
            if resource is EVENTS
            for event in self._objects(EVENTS, key)
        ]
        return Seen(
            job=job,
            gone=None if job is not None else self._last_seen(),
            gone_at=self._gone_at,
            workload=workload,
            clusters=self._objects(RAYCLUSTERS),
            pods=self._objects(PODS),
            gone_pods=self._gone_pods() if job is None or _is_settling(job) else (),
            events=tuple(events),
            place=self._place,
            pulls=self._pulls.see(self._objects(PODS), datetime.now(UTC)),
            blind=frozenset(self._blind),
        )

    async def _living_job(self) -> Mapping[str, Any] | None:
        """Return the job; one that a store does not show is asked for, since a store may lag behind its submission."""
        there = self._there()
        if there is not None:
            return there.object()
        if self._stores[resource_of(self._ref)].last_seen_deleted(self._ref.uid) is None:
            asked = await get_job(self._cluster, self._ref)
            if asked is not None:
                self._hold(keep(self._key, asked))
                return asked
        self._gone_at = self._gone_at or datetime.now(UTC)
        return None

    def _last_seen(self) -> Mapping[str, Any] | None:
        deleted = self._stores[resource_of(self._ref)].last_seen_deleted(self._ref.uid)
        return deleted or MEMORY.deleted(self._ref.uid) or (None if self._job is None else self._job.object())

    def _gone_pods(self) -> tuple[Mapping[str, Any], ...]:
        """Return the pods that went while they were watched, in their last state."""
        gone = self._pods.keys() - {uid(pod) for pod in self._objects(PODS)}
        return tuple(self._stores[PODS].last_seen_deleted(each) or self._pods[each] for each in sorted(gone))


def _is_refused(error: BackendError) -> bool:
    """Say whether waiting cures nothing; a login that is not taken now may be taken again when it is renewed."""
    return not isinstance(error, BackendUnavailable) and getattr(error, "status", 0) != _UNAUTHORIZED


def _waits_in(status: Status, seen: Seen) -> tuple[str, str, str] | None:
    """Return namespace, queue and Workload of a run that waits; None for another one."""
    if status.phase is not Phase.QUEUED or status.queue is None or seen.workload is None:
        return None
    return status.ref.namespace, status.queue.queue, str(seen.workload["metadata"]["name"])


def _pause_of(status: Status, seen: Seen) -> float | None:
    """Return after how long to look again although nothing happened; None where only a change can bring anything."""
    if status.phase.terminal:
        return None
    if _is_settling(seen.job or {}):
        return _SETTLING_SECONDS
    if seen.blind:  # nobody tells when it may be seen again
        return _LOOK_AGAIN_SECONDS
    if status.phase is Phase.QUEUED and waits_for_its_queue(seen):
        return None
    if status.phase is Phase.RUNNING and not changes_by_time(status.ref, seen, datetime.now(UTC)):
        return None
    return _LOOK_AGAIN_SECONDS


def _is_settling(job: Mapping[str, Any]) -> bool:
    """Say whether the controller has written the end of the job, and only the pods that explain it are waited for."""
    status = job.get("status") or {}
    over = {each.get("type") for each in status.get("conditions") or [] if each.get("status") == "True"}
    return bool(over & _ENDS) or status.get("jobDeploymentStatus") in _ENDS
