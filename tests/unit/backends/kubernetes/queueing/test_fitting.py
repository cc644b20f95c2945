from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.queueing.fitting import Choice, choice_exists, missing

ROOM = {"a": {"cpu": 8, "gpu": 2}, "b": {"cpu": 4, "gpu": 6}}


def room(flavor: str, resource: str) -> int:
    return ROOM[flavor].get(resource, 0)


def choice(name: str, flavors: str = "ab", **asked: int) -> Choice:
    return Choice(name, asked, tuple(flavors))


@pytest.mark.parametrize(
    ("choices", "fits"),
    [
        ([choice("master", cpu=8)], True),
        ([choice("master", cpu=9)], False),
        ([choice("master", cpu=5, gpu=4)], False),
        ([choice("master", cpu=4), choice("worker", cpu=8)], True),
        ([choice("master", "b", cpu=4), choice("worker", cpu=5)], True),
        ([choice("master", "a", cpu=4), choice("worker", cpu=5)], False),
        ([choice("master", cpu=6), choice("worker", cpu=6)], False),
        ([], True),
    ],
)
def test_one_flavor_holds_a_whole_pod_set_and_sets_share_what_there_is(choices: list[Choice], fits: bool) -> None:
    assert choice_exists(choices, room) is fits


def test_a_pod_set_that_is_too_large_alone_is_named_with_the_nearest_flavor() -> None:
    (short,) = missing([choice("worker", cpu=5, gpu=6), choice("master", cpu=1)], room)
    assert (short.pod_set, short.resource, short.need, short.have, short.flavors) == ("worker", "cpu", 5, 4, ("b",))


def test_sets_that_are_too_large_together_are_told_as_a_sum() -> None:
    (short,) = missing([choice("master", cpu=8), choice("worker", cpu=7)], room)
    assert (short.pod_set, short.resource, short.need, short.have) == ("", "cpu", 15, 12)


def test_a_search_without_end_is_left_open() -> None:
    flavors = tuple(f"f{index}" for index in range(16))
    many = [Choice(f"set-{index}", {"cpu": 2}, flavors) for index in range(17)]
    assert choice_exists(many, lambda *_: 3) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6), st.sampled_from(["a", "b", "ab"])), max_size=3))
def test_what_does_not_fit_always_has_a_number_when_each_set_may_have_any_flavor(
    sets: list[tuple[int, int, str]],
) -> None:
    choices = [choice(f"s{index}", cpu=cpu, gpu=gpu) for index, (cpu, gpu, _) in enumerate(sets)]
    if choice_exists(choices, room) is False:
        found = missing(choices, room)
        assert found
        assert all(short.need > short.have for short in found)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6), st.sampled_from(["a", "b", "ab"])), max_size=3),
    st.permutations(range(3)),
)
def test_the_order_of_the_pod_sets_does_not_matter(sets: list[tuple[int, int, str]], order: list[int]) -> None:
    choices = [choice(f"s{index}", names, cpu=cpu, gpu=gpu) for index, (cpu, gpu, names) in enumerate(sets)]
    shuffled = [choices[index] for index in order if index < len(choices)]
    assert choice_exists(choices, room) is choice_exists(shuffled, room)
    assert choice_exists(choices, room) is _by_all_ways(choices)


def _by_all_ways(choices: list[Choice], taken: Mapping[str, Mapping[str, int]] | None = None) -> bool:
    taken = taken or {"a": {}, "b": {}}
    if not choices:
        return True
    first, *rest = choices
    for flavor in first.flavors:
        after = {name: taken[flavor].get(name, 0) + value for name, value in first.asked.items()}
        if all(value <= room(flavor, name) for name, value in after.items()) and _by_all_ways(
            rest, {**taken, flavor: {**taken[flavor], **after}}
        ):
            return True
    return False
