from __future__ import annotations

import pytest

from bench.waiting import End, Result, figures
from bench.waiting_triggers import Held

HELD = Held(
    requests={"watch pods": 3}, requests_before={}, connections=0, agents=[], cpu=1.0, cpu_before=2.0, seconds=30.0,
    memory=80.0, late=0.0, alive=2,
)  # fmt: skip


def test_what_the_api_server_takes_to_write_an_end_is_not_counted_as_the_triggers() -> None:
    ends = [End(sent=10.0, written=14.0, fired=14.5), End(sent=20.0, written=20.25, fired=20.5)]
    found = figures(Result(HELD, ends, 0, [], []))
    assert found["write p99 s"] == pytest.approx(4.0)
    assert found["event p99 s"] == pytest.approx(0.5)
    assert found["whole p99 s"] == pytest.approx(4.5)
    assert (found["ends"], found["requests/min"]) == (2, 6)


def test_the_worst_of_a_hundred_is_the_99th_part_though_they_came_in_another_order() -> None:
    ends = [End(sent=0.0, written=0.0, fired=float(100 - number)) for number in range(100)]
    assert figures(Result(HELD, ends, 0, [], []))["event p99 s"] == 100.0
