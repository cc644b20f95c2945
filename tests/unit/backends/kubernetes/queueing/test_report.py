"""The four answers, each told by what decides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.queueing.machines import machines, trim_pod
from siflow_provider.backends.kubernetes.queueing.picture import Counting, Picture
from siflow_provider.backends.kubernetes.queueing.report import answer
from siflow_provider.core.quota import Verdict
from tests.unit.backends.kubernetes.queueing.kueue import (
    GPU,
    TAINT,
    TOLERATION,
    cluster_queue,
    cohort,
    flavor,
    group,
    inactive,
    local_queue,
    node,
    pod_on,
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


def test_a_task_that_fits_has_four_times_yes_with_numbers() -> None:
    report = answer(picture(), [workers(8)])
    assert report.queue == "lq"
    assert report.fits_now
    assert {report.remaining.verdict, report.available.verdict, report.idle.verdict, report.ever.verdict} == {YES}
    assert "nvidia.com/gpu 8 of 8" in report.remaining.text
    assert "8 replicas of this size" in report.idle.text


def test_more_than_the_queue_has_is_never_with_both_numbers() -> None:
    report = answer(picture(), [workers(64)])
    assert report.never
    assert "nvidia.com/gpu: need 64 GPUs, have 8 GPUs in the ClusterQueue 'cq'" in report.why_not()


def test_a_full_queue_is_not_now_and_not_never() -> None:
    report = answer(picture(eight_gpus(used={"f": {GPU: 6}})), [workers(4)])
    assert not report.fits_now
    assert not report.never
    assert [(short.need, short.have) for short in report.available.short] == [(4, 2)]
    assert report.remaining.verdict is NO


def test_a_queue_that_may_borrow_keeps_its_right_while_the_cohort_is_full() -> None:
    mine = eight_gpus(cohortName="team")
    other = cluster_queue("other", group(f={GPU: quota(8)}), used={"f": {GPU: 12}}, cohortName="team")
    report = answer(picture(cluster_queues=(mine, other)), [workers(8)])
    assert report.remaining.verdict is YES
    assert report.available.verdict is NO
    assert report.ever.verdict is YES


def test_a_mistyped_queue_fails_at_once_and_the_nearest_name_is_told() -> None:
    queues = (local_queue("training", "cq"), local_queue("other", "cq"))
    report = answer(picture(queue="trainng", local_queues=queues), [workers(1)])
    assert report.never
    assert "did you mean 'training'?" in report.why_not()


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_queue_on_hold_waits_with_a_message(policy: str) -> None:
    for parts in (
        {"local_queues": (local_queue("lq", "cq", stopPolicy=policy),)},
        {"cluster_queues": (eight_gpus(stopPolicy=policy),)},
    ):
        report = answer(picture(**parts), [workers(1)])
        assert not report.never
        assert report.available.verdict is NO
        assert "on hold" in report.why_not()


def test_an_inactive_queue_waits_with_the_clusters_own_words() -> None:
    queue = inactive(eight_gpus(), "references missing ResourceFlavor(s): f.")
    report = answer(picture(queue, flavors=()), [workers(1)])
    assert not report.never
    assert "references missing ResourceFlavor(s): f" in report.why_not()


def test_a_local_queue_that_leads_nowhere_waits() -> None:
    report = answer(picture(cluster_queues=()), [workers(1)])
    assert not report.never
    assert report.available.verdict is NO
    assert "which does not exist" in report.why_not()


def test_cluster_queues_that_may_not_be_read_are_unknown_and_never_nothing() -> None:
    report = answer(picture(cluster_queues=None), [workers(1)])
    assert {report.remaining.verdict, report.available.verdict, report.idle.verdict, report.ever.verdict} == {UNKNOWN}
    assert "can't be read" in report.available.text
    assert "0" not in report.available.text


def test_a_hold_is_told_even_when_the_cluster_queue_may_not_be_read() -> None:
    held = local_queue("lq", "cq", stopPolicy="Hold")
    report = answer(picture(cluster_queues=None, local_queues=(held,)), [workers(1)])
    assert report.available.verdict is NO
    assert report.ever.verdict is UNKNOWN


def test_a_cohort_that_may_not_be_read_leaves_the_ceiling_open() -> None:
    report = answer(picture(eight_gpus(cohortName="team"), cohorts=None), [workers(64)])
    assert report.ever.verdict is UNKNOWN
    assert answer(picture(cohorts=None), [workers(64)]).never


def test_a_taint_that_nobody_tolerates_is_never() -> None:
    tainted = picture(flavors=(flavor("f", None, TAINT),))
    report = answer(tainted, [workers(1)])
    assert report.never
    assert "gpu=yes:NoSchedule" in report.why_not()
    assert answer(tainted, [workers(1, tolerations=[TOLERATION])]).ever.verdict is YES


def test_a_node_selector_against_every_flavor_is_never() -> None:
    labelled = picture(flavors=(flavor("f", {"gpu-model": "h100"}),), machines=None)
    report = answer(labelled, [workers(1, selector={"gpu-model": "a100"})])
    assert report.never
    assert "gpu-model=a100" in report.why_not()
    assert not answer(labelled, [workers(1, selector={"gpu-model": "h100", "disk": "ssd"})]).never


def test_an_affinity_on_labels_that_no_flavor_has_is_no_proof() -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n9"]}]}
    labelled = picture(flavors=(flavor("f", {"gpu-model": "h100"}),), machines=None)
    assert not answer(labelled, [workers(1, affinity={"nodeSelectorTerms": [term]})]).never


def test_a_resource_without_quota_is_never_only_where_the_queue_counts_it() -> None:
    asked = pods("worker", 1, {"cpu": 1, "rdma/hca": 1})
    assert answer(picture(), [asked]).ever.verdict is UNKNOWN
    assert answer(picture(counting=Counting()), [asked]).never
    assert answer(picture(counting=Counting(left_out=("rdma/",))), [asked]).fits_now
    assert answer(picture(counting=Counting(changed=frozenset({"rdma/hca"}))), [asked]).ever.verdict is UNKNOWN
    elsewhere = cluster_queue("other", group(f={"rdma/hca": quota(8)}))
    report = answer(picture(cluster_queues=(eight_gpus(), elsewhere)), [asked])
    assert report.never
    assert "no quota for rdma/hca" in report.why_not()


def test_a_resource_that_kueue_leaves_out_needs_no_quota_even_where_a_queue_has_some() -> None:
    ignoring = picture(counting=Counting(left_out=("nvidia.com/",)), machines=None)
    assert answer(ignoring, [workers(64)]).ever.verdict is YES


def test_one_flavor_must_hold_a_whole_pod_set() -> None:
    halves = cluster_queue("cq", group(a={GPU: quota(4)}, b={GPU: quota(4)}))
    flavors = (flavor("a"), flavor("b"))
    assert answer(picture(halves, flavors=flavors), [pods("worker", 8, {GPU: 1})]).never
    sets = [pods("master", 1, {GPU: 4}), pods("worker", 4, {GPU: 1})]
    assert answer(picture(halves, flavors=flavors), sets).ever.verdict is YES


def test_a_namespace_that_the_queue_leaves_out_is_never() -> None:
    chosen = eight_gpus(namespaceSelector={"matchLabels": {"team": "nlp"}})
    assert answer(picture(chosen, namespace_labels={"team": "vision"}), [workers(1)]).never
    assert not answer(picture(chosen, namespace_labels={"team": "nlp"}), [workers(1)]).never
    assert not answer(picture(chosen, namespace_labels=None), [workers(1)]).never


def test_a_strict_queue_with_somebody_before_has_no_room_now() -> None:
    queue = eight_gpus(queueingStrategy="StrictFIFO")
    queue["status"]["pendingWorkloads"] = 2
    report = answer(picture(queue), [workers(1)])
    assert report.available.verdict is NO
    assert "2 tasks wait" in report.available.text


def test_idle_counts_replicas_node_by_node() -> None:
    nodes = machines(
        [node("n1", {"cpu": 64, GPU: 8}), node("n2", {"cpu": 64, GPU: 8})],
        [pod_on("n1", {GPU: 5}), pod_on("n2", {GPU: 6}), pod_on("n2", {GPU: 8}, phase="Succeeded")],
    )
    report = answer(picture(machines=nodes), [workers(2, gpus=2), pods("master", 1, {GPU: 2})])
    assert "2 replicas of this size (cpu 1, nvidia.com/gpu 2) fit node by node (n1 1, n2 1)" in report.idle.text
    assert report.idle.verdict is NO
    assert report.available.verdict is YES


def test_a_pod_that_is_still_ending_holds_its_place() -> None:
    ending = {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {**pods("any", 1, {GPU: 8}).spec, "nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    nodes = machines([node("n1", {"cpu": 64, GPU: 8})], [trim_pod(ending)])
    assert answer(picture(machines=nodes), [workers(1)]).idle.verdict is NO


def test_idle_is_unknown_without_the_pods_of_all_namespaces() -> None:
    nodes = machines([node("n1", {"cpu": 64, GPU: 8})], None)
    report = answer(picture(machines=nodes), [workers(1)])
    assert report.idle.verdict is UNKNOWN
    assert "unused in the ClusterQueue 'cq'" in report.idle.text


def test_one_replica_larger_than_every_node_is_never_only_where_nothing_adds_nodes() -> None:
    large = picture(eight_gpus(), machines=machines([node("n1", {"cpu": 64, GPU: 4})], []))
    assert answer(large, [workers(1, gpus=8)]).ever.verdict is UNKNOWN
    report = answer(replace(large, static=True), [workers(1, gpus=8)])
    assert report.never
    assert "need 8 GPUs, have 4 GPUs in the largest of its nodes" in report.why_not()


def test_devices_that_are_out_of_order_for_a_while_are_no_proof() -> None:
    broken = node("n1", {"cpu": 64, GPU: 8})
    broken["status"]["allocatable"][GPU] = "7"
    assert answer(picture(machines=machines([broken], []), static=True), [workers(1, gpus=8)]).ever.verdict is YES
    bare = machines([node("n1", {"cpu": 64})], [])
    assert answer(picture(machines=bare, static=True), [workers(1, gpus=8)]).ever.verdict is UNKNOWN


def test_a_flavor_without_nodes_is_no_proof() -> None:
    elsewhere = picture(flavors=(flavor("f", {"gpu-model": "h100"}),), static=True)
    assert answer(elsewhere, [workers(1)]).ever.verdict is UNKNOWN


def test_a_resource_quota_of_the_namespace_counts() -> None:
    limit = {
        "metadata": {"name": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
        "status": {"used": {"requests.nvidia.com/gpu": "3"}},
    }
    report = answer(picture(resource_quotas=(limit,)), [workers(2)])
    assert report.remaining.verdict is NO
    assert not report.fits_now
    assert "requests.nvidia.com/gpu: need 2 GPUs, have 1 GPUs in the ResourceQuota 'team'" in report.why_not()
    assert answer(picture(resource_quotas=(limit,)), [workers(5)]).never


def test_a_quota_for_some_pods_only_proves_nothing() -> None:
    scoped = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
    assert not answer(picture(resource_quotas=(scoped,)), [workers(5)]).never


def test_a_pod_above_the_namespaces_range_is_never() -> None:
    limit = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}
    report = answer(picture(limit_ranges=(limit,)), [workers(1)])
    assert report.never
    assert "the LimitRange 'small' for a container" in report.why_not()


def test_a_root_cohort_lends_to_a_queue_that_has_nothing() -> None:
    poor = cluster_queue("cq", group(f={GPU: quota(0)}), cohortName="left")
    tree = (cohort("left", parent="root"), cohort("root", group(f={GPU: quota(16)})))
    report = answer(picture(poor, cohorts=tree), [pods("worker", 16, {GPU: 1})])
    assert report.available.verdict is YES
    assert answer(picture(poor, cohorts=tree), [pods("worker", 17, {GPU: 1})]).never


def test_cohorts_in_a_ring_are_not_known_and_not_never() -> None:
    ring = (cohort("a", parent="b"), cohort("b", parent="a"))
    report = answer(picture(eight_gpus(cohortName="a"), cohorts=ring), [workers(64)])
    assert report.ever.verdict is UNKNOWN


@pytest.mark.parametrize("parts", [{"kueue": False}, {"queue": None}])
def test_without_a_queue_the_nodes_answer(parts: dict[str, Any]) -> None:
    nodes = machines([node("n1", {"cpu": 64, GPU: 8})], [pod_on("n1", {GPU: 6})])
    alone = picture(machines=nodes, **parts)
    assert answer(alone, [workers(2)]).fits_now
    report = answer(alone, [workers(4)])
    assert not report.fits_now
    assert not report.never
    assert "replicas: need 4 worker, have 2 worker in what is free on the nodes" in report.why_not()


def test_without_a_queue_and_without_rights_nothing_is_known() -> None:
    report = answer(picture(kueue=False, machines=None, resource_quotas=None), [workers(1)])
    assert {report.remaining.verdict, report.available.verdict, report.idle.verdict, report.ever.verdict} == {UNKNOWN}
