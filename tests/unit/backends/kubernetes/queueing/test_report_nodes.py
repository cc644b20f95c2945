"""The answers that nodes and namespaces decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.queueing.machines import machines, trim_pod
from siflow_provider.backends.kubernetes.queueing.report import answer
from tests.unit.backends.kubernetes.queueing.kueue import (
    GPU,
    cluster_queue,
    cohort,
    flavor,
    group,
    node,
    pod_on,
    pods,
    quota,
)
from tests.unit.backends.kubernetes.queueing.pictures import NO, UNKNOWN, YES, eight_gpus, picture, workers


def test_idle_counts_one_replica_in_the_singular() -> None:
    nodes = machines([node("n1", {"cpu": 64, GPU: 2})], [])
    report = answer(picture(machines=nodes), [pods("master", 1, {GPU: 2})])
    assert "1 replica of this size (nvidia.com/gpu 2) fits node by node (n1 1)" in report.idle.text


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
    assert not answer(alone, [workers(2)]).queued
    report = answer(alone, [workers(4)])
    assert not report.fits_now
    assert not report.never
    assert "replicas: need 4 worker, have 2 worker in what is free on the nodes" in report.why_not()


def test_without_a_queue_and_without_rights_nothing_is_known() -> None:
    report = answer(picture(kueue=False, machines=None, resource_quotas=None), [workers(1)])
    assert {report.remaining.verdict, report.available.verdict, report.idle.verdict, report.ever.verdict} == {UNKNOWN}
