"""What the fake platform does: tasks in pools with quota, admitted as gangs by priority and age, run and stopped."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.platform.models import CreateTask
from tests.platform.names import TENANT
from tests.platform.pods import Pod, base_env
from tests.platform.ray import RayPods

FINAL = frozenset({"Succeeded", "Failed", "Stopped"})
PRIORITIES = ("high", "medium", "low")
QUEUED = "Queueing"
WIDE = 4096
"""Units of a pool that is made for a task."""


@dataclass
class Pool:
    """One kind of instance in one pool: a row of `/instances`."""

    id: int
    name: str
    instance: str
    quota: int
    shares: dict[str, int] = field(default_factory=dict)
    """User -> units of its own."""

    @property
    def key(self) -> str:
        """How the control path names it."""
        return f"{self.name}/{self.instance}"


@dataclass
class FakeTask:
    """One task and all that happens to it."""

    uuid: str
    name: str
    body: CreateTask
    owner: str
    region: str
    cluster: str
    folder: Path
    status: str = QUEUED
    message: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: datetime | None = None
    ended: datetime | None = None
    pool: Pool | None = None
    units: int = 0
    pods: list[Pod] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None

    def turn(self, status: str, message: str = "") -> None:
        """Change its status; an ended task keeps its end."""
        if self.status in FINAL:
            return
        self.status, self.message, self.updated = status, message, datetime.now(UTC)
        if status in FINAL:
            self.ended = self.updated

    def need(self, instance: str) -> int:
        """Return how many units of an instance the whole task takes."""
        each = next(one.count_per_pod for one in self.body.instances if one.name == instance)
        return each * (self.body.workers + 1)

    @property
    def order(self) -> tuple[int, datetime]:
        """Its place in the queue."""
        return PRIORITIES.index(self.body.priority or "medium"), self.created


@dataclass
class Engine:
    """All tasks of one platform.

    Attributes:
        folder: where logs go.
        pools: what there is.
        commands: run commands as real processes; else they are simulated by time.
        open_pools: a pool or instance that is not there is made for the task that names it.
    """

    folder: Path
    pools: list[Pool]
    commands: bool = True
    start_seconds: float = 0.0
    run_seconds: float = 2.0
    hold_starts: bool = False
    open_pools: bool = False
    tasks: dict[str, FakeTask] = field(default_factory=dict)

    def create(self, body: CreateTask, *, owner: str, region: str, cluster: str) -> FakeTask:
        """Take a task in; the platform puts its own suffix behind the prefix."""
        (task,) = self.fill([body], owner=owner, region=region, cluster=cluster)
        self.schedule()
        return task

    def fill(self, bodies: list[CreateTask], *, owner: str, region: str, cluster: str) -> list[FakeTask]:
        """Take tasks in without looking for room."""
        made = []
        for body in bodies:
            one = str(uuid.uuid4())
            name = f"{body.name_prefix}-{secrets.token_hex(4)}"
            made.append(FakeTask(one, name, body, owner, region, cluster, self.folder / one))
        self.tasks.update({task.uuid: task for task in made})
        return made

    def pool_of(self, task: FakeTask, instance: str) -> Pool | None:
        """Return the pool's row for an instance."""
        wanted = (task.body.resource_pool, instance)
        found = next((pool for pool in self.pools if (pool.name, pool.instance) == wanted), None)
        if found is None and self.open_pools:
            number = max(pool.id for pool in self.pools) + 1
            found = Pool(number, *wanted, quota=WIDE, shares={task.owner: WIDE})
            self.pools.append(found)
        return found

    def used(self, pool: Pool, owner: str | None = None) -> int:
        """Return the units in use; of one user when it is named."""
        live = (task for task in self.tasks.values() if task.pool is pool and task.status not in FINAL)
        return sum(task.units for task in live if owner is None or task.owner == owner)

    def queue(self) -> list[FakeTask]:
        """Return the waiting tasks, first one first."""
        return sorted((task for task in self.tasks.values() if task.status == QUEUED), key=lambda task: task.order)

    def schedule(self) -> None:
        """Admit what fits; nobody passes a task that waits for the same pool and could fit one day."""
        blocked: set[str] = set()
        for task in self.queue():
            place = self._place(task, blocked)
            if place is None:
                continue
            pool, units = place
            task.pool, task.units, task.started = pool, units, datetime.now(UTC)
            task.turn("PartialPending", "waiting for pods")
            task.work = asyncio.create_task(self._run(task))

    def _place(self, task: FakeTask, blocked: set[str]) -> tuple[Pool, int] | None:
        waits = []
        for instance in task.body.instances:
            pool = self.pool_of(task, instance.name)
            if pool is None:
                task.message = f"resource pool {task.body.resource_pool} has no instance {instance.name}"
                continue
            units, free = task.need(instance.name), pool.quota - self.used(pool)
            if units <= free and pool.key not in blocked:
                return pool, units
            task.message = f"instance quota is not enough: needed {units}, available {free}"
            if units <= pool.quota:
                waits.append(pool.key)
        blocked.update(waits)
        return None

    async def _run(self, task: FakeTask) -> None:
        try:
            await self._start(task)
            if not task.stopping.is_set():
                await self._wait(task)
        finally:
            await asyncio.gather(*(pod.end() for pod in task.pods))
            task.turn("Stopped", "stopped by user" if task.stopping.is_set() else "")
            self.schedule()

    async def _start(self, task: FakeTask) -> None:
        task.folder.mkdir(parents=True, exist_ok=True)
        roles = ["master", *["worker"] * task.body.workers]
        if task.body.type == "rayjob":
            roles = ["submitter", "head", *["worker"] * task.body.workers]
        numbers = {role: itertools.count() for role in set(roles)}
        for role in roles:
            number = next(numbers[role])
            task.pods.append(Pod(f"{task.name}-{role}-{number}", task.folder / f"{role}-{number}.log"))
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self.hold_starts else self.start_seconds):
                await task.stopping.wait()

    async def _wait(self, task: FakeTask) -> None:
        if not self.commands:
            await self._simulate(task)
            return
        ray = RayPods(task.pods, task.folder) if task.body.type == "rayjob" else None
        if ray is not None:
            watched = await ray.start(_env(task, 0, ""), task.body.cmd, task.stopping)
        else:
            port = _free_port()
            for rank, pod in enumerate(task.pods):
                await pod.start(["bash", "-c", task.body.cmd], _env(task, rank, str(port)), task.folder)
            watched = task.pods
        if not task.stopping.is_set():
            task.turn("Running")
        if watched:
            await _until_ended(task, watched)
        if ray is not None:
            await asyncio.gather(*(pod.end() for pod in task.pods))
            ray.clean_up()

    async def _simulate(self, task: FakeTask) -> None:
        for pod in task.pods:
            pod.turn("Running")
        task.turn("Running")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.run_seconds):
                await task.stopping.wait()
        if not task.stopping.is_set():
            for pod in task.pods:
                pod.exit_code = 0
                pod.turn("Succeeded")
            task.turn("Succeeded")

    def stop(self, task: FakeTask) -> None:
        """Begin to end a task."""
        if task.status in FINAL:
            return
        task.stopping.set()
        if task.status == QUEUED:
            task.turn("Stopped", "stopped by user")
            self.schedule()
        else:
            task.turn("Stopping")

    async def close(self) -> None:
        """End everything."""
        for task in self.queue():
            task.turn("Stopped")
        for task in self.tasks.values():
            self.stop(task)
        await asyncio.gather(*(task.work for task in self.tasks.values() if task.work is not None))


async def _until_ended(task: FakeTask, pods: list[Pod]) -> None:
    """Wait for all pods; the first failure ends the gang."""
    waiting = {asyncio.create_task(pod.wait()) for pod in pods}
    stop = asyncio.create_task(task.stopping.wait())
    failed = False
    try:
        while waiting and not failed and not stop.done():
            done, _ = await asyncio.wait({*waiting, stop}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= done
            failed = any(one is not stop and one.result() != 0 for one in done)
            task.updated = datetime.now(UTC)
        if stop.done():
            return
        await asyncio.gather(*(pod.end() for pod in task.pods))
        await asyncio.gather(*waiting)
        task.turn("Failed" if failed else "Succeeded", "a pod failed" if failed else "")
    finally:
        stop.cancel()
        if stop.done() and waiting:
            await asyncio.gather(*(pod.end() for pod in task.pods))
            await asyncio.gather(*waiting)


def _env(task: FakeTask, rank: int, port: str) -> dict[str, str]:
    given = {one.env_key: one.env_value for one in task.body.task_env or []}
    injected = {
        "X_USER_NAME": task.owner,
        "X_ORG_NAME": "demo-org",
        "X_TENANT_ID": TENANT,
        "X_REGION": task.region,
        "X_CLUSTER": task.cluster,
        "TASK_UUID": task.uuid,
    }
    if port:
        injected |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": str(task.body.workers + 1),
            "RANK": str(rank),
            "TMPDIR": str(task.folder),  # a container's own, gone with the pod
        }
    return {**base_env(), **given, **injected}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
