from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from siflow_provider.core.moves import Moves
from siflow_provider.core.outcome import FollowPolicy
from siflow_provider.core.recovery import attempts_allowed, backoff_seconds, is_retried
from siflow_provider.core.status import Failure, FailureClass

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failure(category: FailureClass, *, transient: bool) -> Failure:
    return Failure(category=category, summary="it failed", transient=transient)


@pytest.mark.parametrize(
    ("policy", "category", "transient", "attempt", "retried"),
    [
        ({}, FailureClass.NODE_LOST, True, 1, False),
        ({"max_retries": 2}, FailureClass.NODE_LOST, True, 1, True),
        ({"max_retries": 2}, FailureClass.PREEMPTED, True, 2, True),
        ({"max_retries": 2}, FailureClass.PREEMPTED, True, 3, False),
        ({"max_retries": 2}, FailureClass.CODE, False, 1, False),
        ({"max_retries": 2}, FailureClass.CODE, True, 1, True),
        ({"max_retries": 2}, FailureClass.OUT_OF_MEMORY, False, 1, False),
        ({"max_retries": 2}, FailureClass.DATA_PATH, False, 1, False),
        ({"max_retries": 2}, FailureClass.LOST, False, 1, False),
        ({"max_retries": 2, "retry_on": ("lost",)}, FailureClass.LOST, False, 1, True),
        ({"max_retries": 2, "retry_on": ("code",)}, FailureClass.CODE, False, 1, True),
        ({"max_retries": 2, "retry_on": ("code",)}, FailureClass.NODE_LOST, True, 1, False),
        ({"max_retries": 2, "retry_on": ()}, FailureClass.NODE_LOST, True, 1, False),
        # attempt 3 after a move has used one retry, not two
        ({"max_retries": 2, "moves": 1}, FailureClass.NODE_LOST, True, 3, True),
        ({"max_retries": 2, "moves": 1}, FailureClass.NODE_LOST, True, 4, False),
    ],
)
def test_only_what_a_retry_can_cure_or_the_author_asked_for_is_retried(
    policy: dict[str, Any], category: FailureClass, transient: bool, attempt: int, retried: bool
) -> None:
    made = FollowPolicy.model_validate(policy)
    assert is_retried(made, failure(category, transient=transient), attempt, NOW) is retried


def test_no_retry_starts_behind_the_deadline() -> None:
    lost = failure(FailureClass.NODE_LOST, transient=True)
    near = FollowPolicy(max_retries=9, deadline=NOW + timedelta(seconds=3))
    assert is_retried(near, lost, 2, NOW)  # waits 2 s
    assert not is_retried(near, lost, 3, NOW)  # would wait 4 s
    assert not is_retried(near, lost, 1, NOW + timedelta(seconds=3))


def test_backoff_doubles_from_a_second_to_five_minutes() -> None:
    waits = [backoff_seconds(number) for number in range(1, 2000)]
    assert waits[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(waits[9:]) == {300}


def test_moves_are_no_retries_in_the_count_of_attempts() -> None:
    assert attempts_allowed(FollowPolicy(max_retries=3)) == 4
    assert attempts_allowed(FollowPolicy(max_retries=3, moves=2)) == 6


@pytest.mark.parametrize("moves", [Moves(), Moves(count=3, queued_seconds=12.5), Moves(flavor=2)])
def test_moves_are_read_back_as_they_were_written(moves: Moves) -> None:
    assert Moves.of({"siflow-provider/dag-id": "d", **moves.annotations()}) == moves


@pytest.mark.parametrize("wrong", [{}, {"siflow-provider/moves": "many", "siflow-provider/queued-before": "1"}])
def test_annotations_that_somebody_else_wrote_tell_of_no_move(wrong: dict[str, str]) -> None:
    assert Moves.of(wrong) == Moves()
