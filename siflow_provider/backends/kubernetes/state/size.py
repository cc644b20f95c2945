"""How many accelerators a job holds: from its pod templates, which hold what was rendered and patched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import Object, dig, items
from siflow_provider.spec.quantity import accelerators, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from siflow_provider.core.status import Kind

__all__ = ["accelerators_of"]


def accelerators_of(kind: Kind, job: Object, workload: Object | None = None) -> float:
    """Return the accelerators of all replicas together.

    The Workload that the job runs on says how many workers Ray's autoscaler has now; the RayJob stays as it was made.
    """
    sizes = {str(each.get("name")): int(each.get("count") or 0) for each in items(workload, "spec", "podSets")}
    return sum(count * _of_pod(template) for template, count in _templates(kind, job, sizes))


def _templates(kind: Kind, job: Object, sizes: Mapping[str, int]) -> Iterator[tuple[Object, int]]:
    trainer = dig(job, "spec", "trainer")
    if trainer is not None:
        sized = {"resources": trainer.get("resourcesPerNode")}
        yield {"spec": {"containers": [sized]}}, int(trainer.get("numNodes") or 1)
        return
    if kind == "PyTorchJob":
        for spec in (dig(job, "spec", "pytorchReplicaSpecs") or {}).values():
            yield dig(spec, "template") or {}, int(spec.get("replicas") or 0)
        return
    yield dig(job, "spec", "rayClusterSpec", "headGroupSpec", "template") or {}, 1
    for group in items(job, "spec", "rayClusterSpec", "workerGroupSpecs"):
        yield dig(group, "template") or {}, sizes.get(str(group.get("groupName")), int(group.get("replicas") or 0))


def _of_pod(template: Object) -> float:
    amounts = [_amounts(container) for container in items(template, "spec", "containers")]
    names = accelerators({name for each in amounts for name in each})
    return float(sum(parse_quantity(each[name]) for each in amounts for name in names if name in each))


def _amounts(container: Object) -> dict[str, str]:
    limits = dig(container, "resources", "limits") or {}
    requests = dig(container, "resources", "requests") or {}
    return {str(name): str(value) for name, value in {**limits, **requests}.items()}
