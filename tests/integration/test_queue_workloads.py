"""What is counted for a task is what Kueue counts: real jobs, their real Workloads, and what the queue reserves."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.queueing.amounts import read_amounts
from siflow_provider.backends.kubernetes.queueing.podsets import PodSet, pod_sets, total
from siflow_provider.spec.policy import KubernetesOptions
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.ray import Head, RaySection
from siflow_provider.spec.resolve import Flavor
from tests.control_plane.admin import Admin, Object, condition
from tests.control_plane.queues import GPU, Queues
from tests.unit.backends.kubernetes.tasks import job, pytorch, ray, rendered

HEAD = Flavor(instance="small", resources=Resources.of({"cpu": 2, "memory": "4Gi"}))
PATCH = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}}


def place(queue: str, gpus: int) -> Flavor:
    resources = Resources.of({"cpu": "1500m", "memory": "2Gi", GPU: gpus})
    return Flavor(instance="gpu", resources=resources, queue=queue, accelerator="gpu")


def submitted(admin: Admin, namespace: str, document: Any) -> tuple[Object, str]:
    """Create a job and return the one Workload that stands for it, with its path."""
    made = admin.create({**document, "metadata": {**document["metadata"], "namespace": namespace}})
    uid = made["metadata"]["uid"]
    collection = admin.path("Workload", namespace=namespace)
    found = admin.wait(
        f"{collection}?labelSelector=kueue.x-k8s.io/job-uid={uid}", lambda each: (each or {}).get("items"), "a Workload"
    )
    assert found is not None
    (workload,) = found["items"]
    return workload, admin.path("Workload", workload["metadata"]["name"], namespace)


def counted(workload: Object) -> list[tuple[str, int, dict[str, int]]]:
    sets = [PodSet.of(each["name"], each.get("count", 1), each["template"]) for each in workload["spec"]["podSets"]]
    return [(one.name, one.count, dict(one.each)) for one in sets]


JOBS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "pytorch": (pytorch(workers=2), {}, 24),
    "alone": (pytorch(workers=0), {}, 8),
    "patched": (pytorch(workers=1, kubernetes=KubernetesOptions(patch=PATCH)), {}, 32),
    "small-head": (ray(RaySection(head=Head(instance="small")), workers=2), {"head": HEAD}, 16),
    "ray": (ray(workers=1), {}, 16),
}
"""A form, what is resolved of it beside the flavor, and the GPUs of the whole task."""


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_one_workload_with_all_pod_sets_and_the_queue_reserves_what_was_counted(
    admin: Admin, namespace: str, queues: Queues, name: str
) -> None:
    form, parts, gpus = JOBS[name]
    cluster_queue = queues.cluster_queue({queues.flavor(): {"cpu": 100, "memory": "1Ti", GPU: 100}})
    document = job(rendered(form, flavors=(place(queues.local_queue(cluster_queue), 8),), **parts))
    workload, path = submitted(admin, namespace, document)
    own = pod_sets(document)
    assert counted(workload) == [(one.name, one.count, dict(one.each)) for one in own]
    assert total(own)[GPU] == gpus
    admin.wait(path, lambda found: condition(found, "QuotaReserved") == "True", "quota reserved")
    assert len(admin.items(admin.path("Workload", namespace=namespace))) == 1
    queue = admin.wait(admin.path("ClusterQueue", cluster_queue), reserved, "reserves it")
    assert reserved(queue) == total(own)


def reserved(queue: Object | None) -> dict[str, int]:
    """Return what a ClusterQueue holds, nothing left out but zeros."""
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    amounts = {each["name"]: each["total"] for flavor in flavors for each in flavor["resources"]}
    return {name: value for name, value in read_amounts(amounts).items() if value}
