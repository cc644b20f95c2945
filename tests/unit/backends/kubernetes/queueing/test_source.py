"""Quota asked of an API server: who shares what, and what a missing right does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.shared import Cluster
from siflow_provider.backends.kubernetes.queueing.source import quota, take_picture
from siflow_provider.core.quota import Verdict
from siflow_provider.errors import BackendUnavailable
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from tests.unit.backends.kubernetes.queueing.answering import Answering
from tests.unit.backends.kubernetes.queueing.kueue import cluster_queue, flavor, group, local_queue, node
from tests.unit.backends.kubernetes.queueing.kueue import quota as amount
from tests.unit.backends.kubernetes.tasks import pytorch, resolved

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES, FLAVORS, COHORTS = (f"{KUEUE}/{kind}" for kind in ("clusterqueues", "resourceflavors", "cohorts"))
LOCAL = f"{KUEUE}/namespaces/ml/localqueues"
CONFIG = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


@pytest.fixture
def full(server: Answering) -> Answering:
    """A server with Kueue, one queue of 16 cores, and one node of 8."""
    server.objects["/apis"] = {
        "groups": [{"name": "kueue.x-k8s.io", "versions": [{"version": "v1beta2"}], "preferredVersion": {}}]
    }
    server.objects[KUEUE] = {"resources": [{"name": "workloads"}]}
    server.objects["/version"] = {"gitVersion": "v1.36.3"}
    server.lists = {
        LOCAL: [local_queue("gpu", "cq")],
        QUEUES: [cluster_queue("cq", group(f={"cpu": amount(16), "memory": amount("64Gi")}))],
        FLAVORS: [flavor("f")],
        COHORTS: [],
        "/api/v1/nodes": [node("n1", {"cpu": 8, "memory": "64Gi"})],
        "/api/v1/pods": [],
        "/api/v1/namespaces/ml/resourcequotas": [],
        "/api/v1/namespaces/ml/limitranges": [],
    }
    server.objects["/api/v1/namespaces/ml"] = {"metadata": {"name": "ml", "labels": {}}}
    return server


def task(cpu: int, workers: int = 0, **parts: Any) -> ResolvedTask:
    place = Flavor(instance="in-place", resources=Resources.of({"cpu": cpu, "memory": "1Gi"}), queue="gpu")
    return resolved(pytorch(workers=workers), **{"flavors": (place,), "namespace": "ml", **parts})


async def test_ten_that_ask_together_cost_one_list_of_each_kind(full: Answering, cluster: Cluster) -> None:
    reports = await asyncio.gather(*(quota(cluster, task(2, workers=1)) for _ in range(10)))
    assert all(report.fits_now for report in reports)
    assert set(full.asked.values()) == {1}, full.asked


@pytest.mark.parametrize(
    ("path", "open_answers"),
    [
        (LOCAL, {"remaining", "available", "idle", "ever"}),
        (QUEUES, {"remaining", "available", "idle", "ever"}),
        (FLAVORS, {"idle"}),
        (COHORTS, set()),
        ("/api/v1/nodes", {"idle"}),
        ("/api/v1/pods", {"idle"}),
        ("/api/v1/namespaces/ml/resourcequotas", set()),
        ("/api/v1/namespaces/ml", set()),
    ],
)
async def test_a_missing_right_leaves_open_what_hangs_on_it(
    full: Answering, cluster: Cluster, path: str, open_answers: set[str]
) -> None:
    full.denied.add(path)
    report = await quota(cluster, task(2))
    answers = {name: getattr(report, name) for name in ("remaining", "available", "idle", "ever")}
    assert {name for name, answer in answers.items() if answer.verdict is Verdict.UNKNOWN} == open_answers
    assert Verdict.NO not in {answer.verdict for answer in answers.values()}


async def test_nodes_prove_a_size_only_where_no_autoscaler_is_known_to_run(full: Answering, cluster: Cluster) -> None:
    assert (await quota(cluster, task(12))).never


@pytest.mark.parametrize("sign", ["forbidden", "status", "group", "provider"])
async def test_a_sign_of_an_autoscaler_makes_a_size_a_doubt(full: Answering, cluster: Cluster, sign: str) -> None:
    if sign == "forbidden":
        full.denied.add(AUTOSCALER)
    elif sign == "status":
        full.objects[AUTOSCALER] = {"metadata": {"name": "cluster-autoscaler-status"}}
    elif sign == "group":
        full.objects["/apis"]["groups"].append({"name": "karpenter.sh", "versions": [{"version": "v1"}]})
    else:
        full.lists["/api/v1/nodes"] = [node("n1", {"cpu": 8, "memory": "64Gi"}, providerID="cloud://1")]
    report = await quota(cluster, task(12))
    assert report.ever.verdict is Verdict.UNKNOWN
    assert "larger than each of the 1 nodes" in report.ever.text


async def test_kueues_own_configuration_says_what_it_counts(full: Answering, cluster: Cluster) -> None:
    text = "resources: {excludeResourcePrefixes: [rdma/], transformations: [{input: a.example/b}]}"
    full.objects[CONFIG] = {"data": {"controller_manager_config.yaml": text}}
    counting = (await take_picture(cluster, "ml", "gpu")).counting
    assert counting is not None
    assert [counting.counts(name) for name in ("cpu", "rdma/hca", "a.example/b")] == [True, False, False]


async def test_a_job_without_queue_goes_to_the_namespaces_default(full: Answering, cluster: Cluster) -> None:
    assert (await take_picture(cluster, "ml", None)).queue is None
    full.lists["/apis/kueue.x-k8s.io/v1beta2/namespaces/other/localqueues"] = [local_queue("default", "cq")]
    assert (await take_picture(cluster, "other", None)).queue == "default"


async def test_a_server_that_is_down_is_no_answer(full: Answering, cluster: Cluster) -> None:
    full.broken = True
    with pytest.raises(BackendUnavailable):
        await quota(cluster, task(2))


async def test_a_submission_reads_no_pods_of_the_cluster_where_a_queue_answers(
    full: Answering, cluster: Cluster
) -> None:
    report = await quota(cluster, task(2), idle=False)
    assert (report.idle.verdict, report.fits_now) == (Verdict.UNKNOWN, True)
    assert "/api/v1/pods" not in full.asked


async def test_a_submission_looks_at_the_first_nodes_alone_where_they_are_large_enough(
    full: Answering, cluster: Cluster
) -> None:
    assert (await quota(cluster, task(2), idle=False)).fits_now
    assert full.limits["/api/v1/nodes"] == ["50"]


async def test_a_submission_looks_at_all_nodes_before_it_says_that_a_replica_fits_none(
    full: Answering, cluster: Cluster
) -> None:
    report = await quota(cluster, task(12), idle=False)
    assert report.never
    assert report.ever == (await quota(cluster, task(12))).ever
    assert full.limits["/api/v1/nodes"] == ["50", "500"]
