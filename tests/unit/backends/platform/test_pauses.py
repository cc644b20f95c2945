"""Who asks again waits longer each time, and not as long as everybody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siflow_provider.backends.platform.client import Client
from siflow_provider.backends.platform.matches import Twins
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.poller import Poller
from siflow_provider.backends.platform.tasks import Tasks
from tests.platform.client import connection

PACE = Pace(first_pause=0.5, listing=10.0, longest_listing=30.0)


def client() -> Client:
    return Client(connection("https://console.example.test/sfapi"), PACE)


def expect_spread(pause: Callable[[], float], low: float, high: float) -> None:
    """Expect that pauses lie between two values, and all over between them."""
    pauses = [pause() for _ in range(300)]
    assert low <= min(pauses) <= low + 0.2 * (high - low)
    assert high - 0.2 * (high - low) <= max(pauses) <= high


@pytest.mark.parametrize(("attempt", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (9, 8.0)])
def test_the_pause_before_another_try_doubles_up_to_eight_seconds(attempt: int, longest: float) -> None:
    asks = client()
    expect_spread(lambda: asks._pause(attempt, None), longest / 2, longest)


@pytest.mark.parametrize(
    ("said", "low", "high"), [("7", 7.0, 8.4), ("9999", 60.0, 72.0), ("0", 1.0, 2.0), ("x", 1.0, 2.0)]
)
def test_the_platforms_own_word_on_the_pause_is_kept_up_to_a_minute(said: str, low: float, high: float) -> None:
    asks = client()
    expect_spread(lambda: asks._pause(3, said), low, high)


@pytest.mark.parametrize(
    ("quiet", "failures", "pages", "seconds"),
    [
        (0, 0, 1, 10.0),
        (1, 0, 1, 15.0),
        (2, 0, 1, 22.5),
        (3, 0, 1, 30.0),
        (99, 0, 1, 30.0),
        (0, 0, 20, 30.0),  # 10,000 tasks
        (0, 0, 200, 300.0),
        (0, 1, 1, 20.0),
        (0, 3, 1, 80.0),
        (0, 9, 1, 120.0),
        (0, 99, 1, 120.0),
    ],
)
def test_listings_are_rarer_the_quieter_the_larger_and_the_worse_it_is(
    quiet: int, failures: int, pages: int, seconds: float
) -> None:
    tasks = Tasks(client())
    poller = Poller(tasks, PACE, Twins(tasks), unwatched=lambda _: None)
    poller._quiet, poller._failures, poller._pages = quiet, failures, pages
    expect_spread(poller._pause, 0.9 * seconds, 1.1 * seconds)
