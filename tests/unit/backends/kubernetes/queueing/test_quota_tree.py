"""Ceilings and free amounts, worked out by hand from Kueue's rules."""

from __future__ import annotations

import pytest

from siflow_provider.backends.kubernetes.queueing.quota_tree import CohortCycle, QuotaTree
from tests.unit.backends.kubernetes.queueing.kueue import GPU, cluster_queue, cohort, group, quota

KEY = ("f", GPU)


def gpus(
    name: str,
    nominal: int,
    borrow: int | None = None,
    lend: int | None = None,
    *,
    within: str | None = "team",
    used: int = 0,
) -> dict[str, object]:
    spec = {} if within is None else {"cohortName": within}
    return cluster_queue(name, group(f={GPU: quota(nominal, borrow, lend)}), used={"f": {GPU: used}}, **spec)


def test_a_queue_without_cohort_has_its_own_quota_and_no_more() -> None:
    tree = QuotaTree([gpus("a", 8, within=None, used=3)])
    assert tree.ceiling("a", KEY) == 8
    assert tree.available("a", KEY) == 5


def test_a_queue_in_a_cohort_may_borrow_all_that_the_others_have() -> None:
    tree = QuotaTree([gpus("a", 8), gpus("b", 4, used=1)])
    assert tree.ceiling("a", KEY) == 12
    assert tree.available("a", KEY) == 11


def test_the_borrowing_limit_bounds_what_a_queue_takes_beyond_its_own() -> None:
    tree = QuotaTree([gpus("a", 8, borrow=2, used=9), gpus("b", 10)])
    assert tree.ceiling("a", KEY) == 10
    assert tree.available("a", KEY) == 1
    assert tree.unused("a", KEY) == 9


def test_the_lending_limit_keeps_a_part_from_the_others() -> None:
    tree = QuotaTree([gpus("a", 2), gpus("b", 10, lend=3)])
    assert tree.ceiling("a", KEY) == 5
    assert tree.ceiling("b", KEY) == 12


def test_what_a_lender_uses_of_the_part_it_keeps_takes_nothing_from_the_others() -> None:
    tree = QuotaTree([gpus("a", 2), gpus("b", 10, lend=3, used=7)])
    assert tree.available("a", KEY) == 5
    assert QuotaTree([gpus("a", 2), gpus("b", 10, lend=3, used=9)]).available("a", KEY) == 3


def test_a_cohort_lends_to_its_children_through_its_parents() -> None:
    root = cohort("root", group(f={GPU: quota(16)}))
    left = cohort("left", parent="root")
    right = cohort("right", group(f={GPU: quota(4, lend=1)}), parent="root")
    tree = QuotaTree([gpus("a", 2, within="left"), gpus("b", 6, within="right")], [root, left, right])
    # 16 of the root, 2 of its own; of right's 4 + 6 it lends 1
    assert tree.ceiling("a", KEY) == 19
    assert tree.ceiling("b", KEY) == 28


def test_a_cohort_that_may_borrow_little_bounds_all_queues_below() -> None:
    root = cohort("root", group(f={GPU: quota(16)}))
    left = cohort("left", group(f={GPU: quota(0, borrow=3)}), parent="root")
    tree = QuotaTree([gpus("a", 2, within="left")], [root, left])
    assert tree.ceiling("a", KEY) == 5


def test_what_siblings_borrowed_from_above_is_no_longer_free() -> None:
    root = cohort("root", group(f={GPU: quota(16)}))
    tree = QuotaTree([gpus("a", 2, within="root"), gpus("b", 2, within="root", used=12)], [root])
    assert tree.available("a", KEY) == 8


def test_a_queue_that_holds_more_than_there_is_leaves_a_negative_rest() -> None:
    assert QuotaTree([gpus("a", 4, within=None, used=6)]).available("a", KEY) == -2


def test_cohorts_that_are_each_others_parents_are_named() -> None:
    tree = QuotaTree([gpus("a", 4, within="x")], [cohort("x", parent="y"), cohort("y", parent="x")])
    with pytest.raises(CohortCycle, match="x -> y -> x"):
        tree.ceiling("a", KEY)
