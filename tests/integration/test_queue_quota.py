"""Quota asked of a real cluster: what can never be had fails at once, what is held up waits with a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.queueing.discover import discover_catalog
from siflow_provider.backends.kubernetes.queueing.source import quota
from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import QuotaReport, Verdict
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.control_plane.admin import Admin, condition
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import GPU, Queues, Quota
from tests.integration.test_queue_position import submit
from tests.unit.backends.kubernetes.tasks import pytorch, resolved

TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


async def ask(plane: ControlPlane, namespace: str, queue: str | None, gpus: int = 1, workers: int = 0) -> QuotaReport:
    resources = Resources.of({"cpu": 1, "memory": "1Gi", GPU: gpus})
    task = resolved(pytorch(workers=workers), flavors=(Flavor("gpu", resources, queue),), namespace=namespace)
    settings = Settings(backend="kubernetes", kubernetes={"kube_config_path": str(plane.kubeconfig)})
    async with open_cluster(settings) as cluster:
        return await quota(cluster, task)


async def test_a_mistyped_queue_is_refused_with_the_nearest_name(
    control_plane: ControlPlane, namespace: str, queues: Queues
) -> None:
    queue = queues.queue(GPU=8)
    report = await ask(control_plane, namespace, f"{queue}x")
    assert report.never
    assert f"did you mean {queue!r}?" in report.why_not()


async def test_more_gpus_than_the_queue_has_are_refused_with_the_limit(
    control_plane: ControlPlane, namespace: str, queues: Queues
) -> None:
    report = await ask(control_plane, namespace, queues.queue(GPU=8), gpus=8, workers=7)
    assert report.never
    assert f"{GPU}: need 64 GPUs, have 8 GPUs" in report.why_not()


async def test_a_queue_on_hold_waits_with_a_message(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    quotas: Quota = {"cpu": 8, "memory": "8Gi", GPU: 8}
    queue = queues.local_queue(queues.cluster_queue({queues.flavor(): quotas}, stopPolicy="Hold"))
    path = admin.path("LocalQueue", queue, namespace)
    admin.wait(path, lambda found: condition(found, "Active") == "False", "inactive")
    report = await ask(control_plane, namespace, queue)
    assert not report.never
    assert not report.fits_now
    assert "is on hold" in report.why_not()


async def test_a_queue_whose_flavor_is_missing_waits_with_kueues_own_words(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    flavor = queues.flavor()
    cluster_queue = queues.cluster_queue({flavor: {"cpu": 8, "memory": "8Gi", GPU: 8}}, stopPolicy="Hold")
    queue = queues.local_queue(cluster_queue)
    group: Any = {"name": "no-such-flavor", "resources": [{"name": GPU, "nominalQuota": "8"}]}
    queues.change(cluster_queue, [group])
    admin.patch(admin.path("ClusterQueue", cluster_queue), {"spec": {"stopPolicy": "None"}})
    path = admin.path("ClusterQueue", cluster_queue)
    admin.wait(path, lambda found: "FlavorNotFound" in str(found), "misses its flavor")
    report = await ask(control_plane, namespace, queue)
    assert not report.fits_now
    assert "missing ResourceFlavor" in report.available.text


async def test_a_tainted_flavor_is_refused_to_who_does_not_tolerate_it(
    control_plane: ControlPlane, namespace: str, queues: Queues
) -> None:
    flavor = queues.flavor(nodeTaints=[TAINT])
    queue = queues.local_queue(queues.cluster_queue({flavor: {"cpu": 8, "memory": "8Gi", GPU: 8}}))
    report = await ask(control_plane, namespace, queue)
    assert report.never
    assert "nvidia.com/gpu:NoSchedule" in report.why_not()


async def test_a_replica_larger_than_every_node_is_refused_although_the_queue_would_take_it(
    control_plane: ControlPlane, namespace: str, queues: Queues
) -> None:
    report = await ask(control_plane, namespace, queues.queue(GPU=100), gpus=16)
    assert report.never
    assert "need 16 GPUs, have 8 GPUs in the largest of its nodes" in report.why_not()


async def test_a_full_queue_is_told_with_what_is_missing_and_opens_again(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    queue = queues.queue(GPU=8)
    cluster_queue = admin.find(admin.path("LocalQueue", queue, namespace))
    assert cluster_queue is not None
    path = admin.path("ClusterQueue", cluster_queue["spec"]["clusterQueue"])
    holder = submit(admin, namespace, queue, gpus=6)
    admin.wait(path, lambda found: (found or {})["status"].get("reservingWorkloads"), "holds it")
    report = await ask(control_plane, namespace, queue, gpus=4)
    assert (report.available.verdict, report.ever.verdict) == (Verdict.NO, Verdict.YES)
    assert f"{GPU}: need 4 GPUs, have 2 GPUs" in report.why_not()
    admin.delete(admin.path_of(holder))
    admin.wait(path, lambda found: not (found or {})["status"].get("reservingWorkloads"), "is free again")
    assert (await ask(control_plane, namespace, queue, gpus=4)).fits_now


async def test_idle_room_is_counted_node_by_node(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    report = await ask(control_plane, namespace, queues.queue(GPU=100), gpus=1)
    assert "replicas of this size" in report.idle.text
    assert "gpu-" in report.idle.text


async def test_a_resource_quota_of_the_namespace_is_counted(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    limit = {"hard": {f"requests.{GPU}": "2"}}
    metadata = {"name": "team", "namespace": namespace}
    admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": limit})
    assert (await ask(control_plane, namespace, queues.queue(GPU=8), gpus=2)).fits_now
    report = await ask(control_plane, namespace, queues.queue(GPU=8), gpus=2, workers=1)
    assert report.never
    assert "the ResourceQuota 'team'" in report.why_not()


@pytest.fixture
def stored(admin: Admin, namespace: str) -> Iterator[str]:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "team-data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    admin.create(claim)
    yield "team-data"
    admin.delete(admin.path_of(claim))


async def test_a_catalog_drafted_from_the_cluster_holds_its_queues_nodes_and_claims(
    control_plane: ControlPlane, namespace: str, queues: Queues, stored: str
) -> None:
    queue = queues.queue(GPU=8)
    settings = Settings(backend="kubernetes", kubernetes={"kube_config_path": str(control_plane.kubeconfig)})
    catalog = load_catalog(await discover_catalog(settings))
    entries = [entry for entry in catalog.queues if entry.queue == queue]
    assert {entry.project_groups for entry in entries} == {(namespace,)}
    sizes = [catalog.instances[entry.instance].resources for entry in entries]
    assert [size[GPU] for size in sizes] == ["8", "1"]
    volumes = [volume for volume in catalog.volumes.values() if volume.project_groups == (namespace,)]
    assert [(volume.pvc, volume.access) for volume in volumes] == [(stored, "ReadWriteMany")]
