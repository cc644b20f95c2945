"""Places in real queues: how many are ahead, and whose they are."""

from __future__ import annotations

import asyncio

from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.queueing.source import positions_of
from siflow_provider.backends.settings import Settings
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import GPU, Queues, unique
from tests.integration.queue_scenes import workload
from tests.unit.backends.kubernetes.queueing.kueue import pods


def connection(plane: ControlPlane) -> Settings:
    return Settings(backend="kubernetes", kubernetes={"kube_config_path": str(plane.kubeconfig)})


def submit(admin: Admin, namespace: str, queue: str, gpus: int = 8) -> Object:
    sets = (pods("worker", gpus, {GPU: 1}),)
    made = admin.create(workload(unique("waiting"), namespace, queue, sets))
    found = admin.wait(admin.path_of(made), lambda each: condition(each, "QuotaReserved"), "looked at by Kueue")
    assert found is not None
    return found


def in_order(waiting: list[Object]) -> list[str]:
    """Return names as Kueue orders equals: by second of creation, then by uid."""
    ordered = sorted(waiting, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["uid"]))
    return [each["metadata"]["name"] for each in ordered]


async def test_three_that_wait_ahead_make_the_fourth_place(
    admin: Admin, namespace: str, queues: Queues, control_plane: ControlPlane
) -> None:
    queue = queues.local_queue(queues.cluster_queue({queues.flavor(): {GPU: 8}}))
    holder = submit(admin, namespace, queue)
    assert condition(holder, "QuotaReserved") == "True"
    names = in_order([submit(admin, namespace, queue) for _ in range(4)])
    async with open_cluster(connection(control_plane)) as cluster:
        positions = positions_of(cluster)
        found = await asyncio.gather(*(positions.place(namespace, queue, name) for name in names))
        assert [place for place, _ in found] == [1, 2, 3, 4]
        assert found[3][1] == "place 4 in its queue"
        assert await positions.place(namespace, queue, holder["metadata"]["name"]) == (None, "")


async def test_same_named_queues_of_two_namespaces_are_told_apart(
    admin: Admin, namespace: str, queues: Queues, control_plane: ControlPlane
) -> None:
    other = unique("test")
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    cluster_queue, name = queues.cluster_queue({queues.flavor(): {GPU: 8}}), unique("queue")
    for space in (namespace, other):
        queues.local_queue(cluster_queue, space, name)
    submit(admin, namespace, name)
    waiting = {space: [submit(admin, space, name) for _ in range(2)] for space in (other, namespace)}
    everybody = in_order([each for some in waiting.values() for each in some])
    async with open_cluster(connection(control_plane)) as cluster:
        for space, some in waiting.items():
            for place, each in enumerate(in_order(some), start=1):
                overall = everybody.index(each) + 1
                whole = "" if overall == place else f", {overall} in the whole ClusterQueue"
                found = await positions_of(cluster).place(space, name, each)
                assert found == (place, f"place {place} in its queue{whole}")
    admin.delete(admin.path("Namespace", other))
