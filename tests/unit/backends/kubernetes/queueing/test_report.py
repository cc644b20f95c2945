"""The four answers, each told by what decides it: queues, ceilings, flavors."""

from __future__ import annotations

import pytest

from siflow_provider.backends.kubernetes.queueing.picture import Counting
from siflow_provider.backends.kubernetes.queueing.report import answer
from tests.unit.backends.kubernetes.queueing.kueue import (
    GPU,
    TAINT,
    TOLERATION,
    cluster_queue,
    flavor,
    group,
    inactive,
    local_queue,
    pods,
    quota,
)
from tests.unit.backends.kubernetes.queueing.pictures import NO, UNKNOWN, YES, eight_gpus, picture, workers


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
