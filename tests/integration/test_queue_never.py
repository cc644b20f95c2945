"""What is called impossible, Kueue never admits; what it could take, it takes, now or once all is free.

Drawn are: one or two flavors with labels, taints and tolerations, resource groups, quotas that suffice or nearly do,
borrowing and lending limits, a queue alone, in a cohort or in a tree of cohorts, something that is held already,
priorities and preemption, tasks of one or two pod sets. Real Kueue decides while something is held, and again
after that is gone: only then does it contradict a "never" that counts what is merely taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings, target
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from siflow_provider.backends.kubernetes.queueing.source import quota
from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import QuotaReport, Verdict
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.plane import ControlPlane
from tests.integration.queue_scenes import Scene, asked, scenes, workload

pytestmark = pytest.mark.timeout(900)

_ROUNDS, _SCENES = 8, 8


@dataclass
class Judged:
    """What was said of one task, and where Kueue's own verdict stands."""

    scene: Scene
    path: str
    report: QuotaReport
    admitted: bool


class World:
    """All that a test made; it stays to the end, so that Kueue may still change its mind."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace
        self.judged: list[Judged] = []
        self.made: list[str] = []
        self.held: list[str] = []

    def create(self, obj: Object) -> str:
        self.admin.create(obj)
        path = self.admin.path_of(obj)
        self.made.append(path)
        return path

    def decided(self, path: str) -> bool:
        """Wait until Kueue has looked at a Workload, and say whether it let it in."""
        found = self.admin.wait(path, lambda each: condition(each, "QuotaReserved"), "looked at by Kueue")
        return condition(found, "QuotaReserved") == "True"

    def submit(self, scene: Scene, word: str) -> str:
        """Submit the task, or what is held before it."""
        ask, queue = (scene.ask, "mine") if word == "task" else (scene.before, scene.holder)
        assert ask is not None
        _, sets = asked(ask, scene.name(queue), self.namespace)
        priority = scene.priority if word == "task" else 0
        return self.create(workload(scene.name(word), self.namespace, scene.name(queue), sets, priority))

    def prepare(self, scene: Scene) -> None:
        """Make the queues, let the neighbour hold something, and wait until its queue says so."""
        for path in [self.create(obj) for obj in scene.objects(self.namespace)]:
            if "queues/" in path:
                self.admin.wait(path, lambda each: condition(each, "Active") == "True", "active")
        if scene.before is None:
            return
        task, queue = self.submit(scene, "before"), self.admin.path("ClusterQueue", scene.name(scene.holder))
        self.held.append(task)
        if self.decided(task):
            self.admin.wait(queue, lambda each: _reserving(each) == 1, "holding it")

    def release(self) -> None:
        """Take away what was held before the tasks."""
        for task in self.held:
            self.admin.delete(task)
        for task in self.held:
            self.admin.wait(task, lambda each: each is None, "gone")
        self.held.clear()

    def await_admitted(self, path: str) -> None:
        """Wait until Kueue lets a Workload in."""
        self.admin.wait(path, lambda each: condition(each, "QuotaReserved") == "True", "admitted, as there is room")


def _reserving(queue: Object | None) -> int:
    return int((queue or {}).get("status", {}).get("reservingWorkloads") or 0)


@pytest.fixture
def world(admin: Admin, namespace: str) -> Iterator[World]:
    world = World(admin, namespace)
    yield world
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(admin.delete, reversed(world.made)))


def connection(plane: ControlPlane) -> Settings:
    return Settings(backend="kubernetes", kubernetes={"kube_config_path": str(plane.kubeconfig)})


async def judge(world: World, cluster: Cluster, scene: Scene) -> Judged:
    task, _ = asked(scene.ask, scene.name("mine"), world.namespace)
    report = await quota(cluster, task)
    path = world.submit(scene, "task")
    admitted = world.decided(path)
    if report.fits_now and not admitted:  # one flavor at a time: the next one may be tried at the next attempt only
        world.await_admitted(path)
        admitted = True
    return Judged(scene, path, report, admitted)


@settings(
    max_examples=_ROUNDS,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),  # each scene stands for itself, and a second look at one costs as much as the first
    suppress_health_check=(HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large),
)
@given(batch=st.lists(scenes, min_size=_SCENES, max_size=_SCENES))
async def test_what_is_called_impossible_is_never_admitted_and_what_fits_is(
    world: World, control_plane: ControlPlane, batch: list[Scene]
) -> None:
    with ThreadPoolExecutor(len(batch)) as pool:
        list(pool.map(world.prepare, batch))
    async with open_cluster(connection(control_plane)) as cluster:
        judged = [await judge(world, cluster, scene) for scene in batch]
    world.judged += judged
    assert [str(each) for each in judged if each.report.fits_now is not each.admitted] == []
    world.release()
    with ThreadPoolExecutor(len(batch)) as pool:
        list(pool.map(world.await_admitted, [each.path for each in judged if each.report.ever.verdict is Verdict.YES]))
    # where all others are in, Kueue has looked at these again; and those of earlier rounds had time to change
    never = [each for each in world.judged if each.report.never]
    assert [str(each) for each in never if condition(world.admin.find(each.path), "QuotaReserved") == "True"] == []
    target(len(never), label="called impossible")
    for each in judged:
        event(f"never: {each.report.ever.verdict is Verdict.NO}, Kueue admitted: {each.admitted}")
