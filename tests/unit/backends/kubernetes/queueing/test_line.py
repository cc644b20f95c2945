from __future__ import annotations

from siflow_provider.backends.kubernetes.queueing.line import Line, Standing, standings


def in_order(*names: str) -> dict[str, Standing]:
    return {name: Standing(place, place) for place, name in enumerate(names, start=1)}


def test_same_named_queues_of_other_namespaces_are_left_out_and_the_rest_is_counted_anew() -> None:
    rows = [("vision", "v1"), ("nlp", "n1"), ("vision", "v2"), ("nlp", "n2")]
    items = [
        {"metadata": {"namespace": namespace, "name": name}, "positionInClusterQueue": place}
        for place, (namespace, name) in enumerate(rows)
    ]
    assert standings(items, "nlp") == {"n1": Standing(1, 2), "n2": Standing(2, 4)}
    assert standings(items, "vision") == {"v1": Standing(1, 1), "v2": Standing(2, 3)}


def test_a_place_counts_from_one_and_names_the_whole_queue_where_it_differs() -> None:
    line = Line()
    line.update({"a": Standing(1, 1), "b": Standing(2, 5)}, 0.0)
    assert line.tell("a", 0.0) == (1, "place 1 in its queue")
    assert line.tell("b", 0.0) == (2, "place 2 in its queue, 5 in the whole ClusterQueue")
    assert line.tell("gone", 0.0) == (None, "")


def test_there_is_no_estimate_before_three_tasks_left() -> None:
    line = Line()
    line.update(in_order("a", "b", "c", "d"), 0.0)
    line.update(in_order("c", "d"), 600.0)
    assert line.tell("d", 600.0) == (2, "place 2 in its queue")


def test_the_estimate_is_the_pace_at_which_the_line_moved() -> None:
    line = Line()
    names = ["a", "b", "c", "d", "e", "f"]
    for step in range(4):
        line.update(in_order(*names[step:]), step * 600.0)
    # three left within half an hour, and three are still to go
    assert line.tell("f", 1800.0) == (3, "place 3 in its queue; about 30 min more at the pace of the last 30 min")


def test_who_leaves_from_behind_says_nothing_about_those_before_him() -> None:
    line = Line()
    line.update(in_order("a", "b", "c", "d", "e"), 0.0)
    line.update(in_order("a", "b"), 600.0)
    assert line.tell("b", 600.0) == (2, "place 2 in its queue")


def test_several_that_leave_together_left_one_after_the_other() -> None:
    line = Line()
    line.update(in_order("a", "b", "c", "d"), 0.0)
    line.update(in_order("d"), 1800.0)
    assert line.tell("d", 1800.0) == (1, "place 1 in its queue; about 10 min more at the pace of the last 30 min")


def test_what_happened_long_ago_does_not_count() -> None:
    line = Line()
    line.update(in_order("a", "b", "c", "d"), 0.0)
    line.update(in_order("d"), 60.0)
    line.update(in_order("d"), 7200.0)
    assert line.tell("d", 7200.0) == (1, "place 1 in its queue")
