"""A cluster's picture for tests of the answers: one node and one queue of eight GPUs, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.queueing.machines import machines
from siflow_provider.backends.kubernetes.queueing.picture import Picture
from siflow_provider.core.quota import Verdict
from tests.unit.backends.kubernetes.queueing.kueue import (
    GPU,
    cluster_queue,
    flavor,
    group,
    local_queue,
    node,
    pods,
    quota,
)

YES, NO, UNKNOWN = Verdict.YES, Verdict.NO, Verdict.UNKNOWN


def eight_gpus(**more: Any) -> dict[str, Any]:
    return cluster_queue("cq", group(f={"cpu": quota(64), GPU: quota(8)}), **more)


def picture(cluster: dict[str, Any] | None = None, /, **parts: Any) -> Picture:
    base: dict[str, Any] = {
        "namespace": "ml",
        "queue": "lq",
        "local_queues": (local_queue("lq", "cq"),),
        "cluster_queues": (cluster or eight_gpus(),),
        "flavors": (flavor("f"),),
        "cohorts": (),
        "machines": machines([node("n1", {"cpu": 64, GPU: 8})], []),
        "resource_quotas": (),
        "limit_ranges": (),
        "namespace_labels": {},
    }
    return Picture(**{**base, **parts})


def workers(count: int, gpus: int = 1, **more: Any) -> Any:
    return pods("worker", count, {"cpu": 1, GPU: gpus}, **more)
