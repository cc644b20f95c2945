from __future__ import annotations

import pytest

from siflow_provider.backends.kubernetes.queueing.amounts import pod_amounts, read_amount, shown
from siflow_provider.backends.kubernetes.queueing.podsets import task_pod_sets, total
from siflow_provider.spec.policy import KubernetesOptions
from siflow_provider.spec.ray import Head, RaySection
from tests.unit.backends.kubernetes.tasks import CPU, pytorch, ray, resolved

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("resource", "quantity", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "100m", 100),
        ("cpu", "100u", 1),
        ("cpu", 0.5, 500),
        ("memory", "1Gi", 2**30),
        ("memory", "1e3", 1000),
        ("memory", "128974848000m", 128974848),
        (GPU, "8", 8),
        (GPU, "-2", -2),
    ],
)
def test_quantities_are_read_as_the_queue_counts_them(resource: str, quantity: str | float, amount: int) -> None:
    assert read_amount(resource, quantity) == amount


def test_the_whole_task_is_counted_and_not_one_replica() -> None:
    sets = task_pod_sets(resolved(pytorch(workers=3)))
    assert [(one.name, one.count) for one in sets] == [("master", 1), ("worker", 3)]
    assert total(sets) == {"cpu": 4 * 96_000, "memory": 4 * 960 * 2**30, GPU: 32}


def test_a_small_ray_head_takes_no_gpu_and_the_submitter_is_small() -> None:
    form = ray(RaySection(head=Head(instance="cpu.16")), workers=2)
    sets = {one.name: one for one in task_pod_sets(resolved(form, head=CPU))}
    assert list(sets) == ["head", "workers", "submitter"]
    assert total(list(sets.values()))[GPU] == 16
    assert sets["head"].each == {"cpu": 16_000, "memory": 64 * 2**30}
    assert sets["submitter"].each == {"cpu": 500, "memory": 512 * 2**20}


def test_a_patch_of_the_author_counts() -> None:
    patch = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}}
    sets = task_pod_sets(resolved(pytorch(workers=1, kubernetes=KubernetesOptions(patch=patch))))
    assert [one.count for one in sets] == [1, 5]


def test_a_pod_asks_for_its_containers_together_or_for_a_larger_init_container() -> None:
    def container(cpu: str, **more: str) -> dict[str, object]:
        return {"resources": {"limits": {"cpu": cpu}}, **more}

    spec = {"containers": [container("1"), container("2")], "initContainers": [container("500m")]}
    assert pod_amounts(spec) == {"cpu": 3000}
    assert pod_amounts({**spec, "initContainers": [container("4")]}) == {"cpu": 4000}
    assert pod_amounts({**spec, "initContainers": [container("1", restartPolicy="Always")]}) == {"cpu": 4000}
    assert pod_amounts({**spec, "overhead": {"cpu": "250m"}}) == {"cpu": 3250}
    assert pod_amounts({**spec, "resources": {"requests": {"cpu": "2"}}}) == {"cpu": 2000}


def test_amounts_are_shown_as_people_write_them() -> None:
    assert shown({"cpu": 3500, "memory": 16 * 2**30, GPU: 8}) == "cpu 3.5, memory 16Gi, nvidia.com/gpu 8"
