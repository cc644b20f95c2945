"""A thousand who wait cost the API server one list and one watch."""

from __future__ import annotations

import asyncio

from siflow_provider.backends.kubernetes.cluster.resources import CONFIGMAPS
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from tests.control_plane.plane import ControlPlane
from tests.integration.clusters import config_map, settings_for

MANY = 1000


async def test_a_thousand_who_wait_cost_one_list_and_one_watch(control_plane: ControlPlane, namespace: str) -> None:
    settings = settings_for(control_plane.kubeconfig, namespace=namespace)
    waiting = asyncio.Semaphore(0)

    async def wait_for(number: int) -> int:
        async with open_cluster(settings) as cluster:
            store = cluster.store(CONFIGMAPS)
            await store.ready()
            async with store.subscribe(f"a-{number}") as subscription:
                waiting.release()
                while not store.objects(f"a-{number}"):
                    await subscription.changed()
        return number

    async with asyncio.timeout(120), open_cluster(settings) as cluster, asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait_for(number)) for number in range(MANY)]
        for _ in range(MANY):
            await waiting.acquire()
        path = CONFIGMAPS.path(namespace)
        for number in range(MANY):
            group.create_task(cluster.api.create(path, config_map(f"a-{number}")))
    assert sorted(task.result() for task in tasks) == list(range(MANY))
    asked = [
        request.verb for request in control_plane.requests("siflow-provider")
        if request.namespace == namespace and request.verb in ("get", "list", "watch")
    ]  # fmt: skip
    assert asked.count("list") == 1
    # a server ends the watch of a reader that is too slow, as all are on a busy machine; it goes on from there
    assert 1 <= asked.count("watch") <= 5
    assert "get" not in asked
