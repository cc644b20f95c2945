"""What runs out when, in tables; `test_follow_clocks.py` shows what comes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.core.clocks import (
    Clock,
    Sight,
    due_clock,
    duration_text,
    expiry_failure,
    expiry_of_stop,
    next_moment,
    stopper,
)
from siflow_provider.core.outcome import FollowPolicy
from siflow_provider.core.status import Event, FailureClass, JobRef, Phase, ReplicaStatus, Status

START = datetime(2026, 1, 1, tzinfo=UTC)
REF = JobRef(backend="scripted", kind="PyTorchJob", name="train-x", uid="1", task_uuid="2")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sight(phase: Phase, **fields: Any) -> Sight:
    """Return a sight of a run whose phase was first seen 100 s after the start and seen last at 200 s."""
    seen = {key: fields.pop(key) for key in ("active_at", "known") if key in fields}
    status = Status(ref=REF, phase=phase, **fields)
    return replace(Sight(status, seen_at=at(200), phase_since=at(100), active_at=at(150)), **seen)


ALL = {
    "queue_timeout": 1000.0,
    "start_timeout": 500.0,
    "hang_timeout": 300.0,
    "fallback_after": 600.0,
    "image_pull_retries": 2,
}


@pytest.mark.parametrize(
    ("seen", "clock", "seconds"),
    [
        (sight(Phase.QUEUED, queued_seconds=50.0), Clock.FALLBACK, 750),
        (sight(Phase.QUEUED, queued_seconds=200.0), Clock.FALLBACK, 600),
        (sight(Phase.STARTING, admitted_at=at(120)), Clock.START, 620),
        (sight(Phase.STARTING), Clock.START, 600),
        (sight(Phase.STARTING, admitted_at=at(120), running_at=at(110)), Clock.START, 620),
        (sight(Phase.STARTING, admitted_at=at(120), running_at=at(130)), None, None),
        (sight(Phase.STARTING, admitted_at=at(120), failed_pulls=2), Clock.START, 620),
        (sight(Phase.STARTING, admitted_at=at(120), failed_pulls=3), Clock.IMAGE, 200),
        (sight(Phase.RUNNING), Clock.HANG, 450),
        (sight(Phase.RUNNING, active_at=at(50)), Clock.HANG, 400),
        (sight(Phase.RUNNING, active_at=None), None, None),
        (sight(Phase.RUNNING, known=False), None, None),
        (sight(Phase.SUCCEEDED), None, None),
        (sight(Phase.RETRYING), None, None),
    ],
)
def test_each_phase_has_its_own_clock(seen: Sight, clock: Clock | None, seconds: float | None) -> None:
    policy = FollowPolicy.model_validate(ALL)
    assert next_moment(policy, seen) == (None if seconds is None else at(seconds))
    if clock is not None and seconds is not None:
        assert due_clock(policy, seen, at(seconds - 0.001)) is None
        assert due_clock(policy, seen, at(seconds)) is clock


def test_what_ran_out_first_counts() -> None:
    seen = sight(Phase.QUEUED, queued_seconds=200.0)
    policy = FollowPolicy(queue_timeout=1000.0, fallback_after=600.0, deadline=at(900))
    assert due_clock(policy, seen, at(5000)) is Clock.FALLBACK
    assert due_clock(policy.model_copy(update={"fallback_after": None}), seen, at(5000)) is Clock.EXECUTION


def test_the_deadline_holds_whatever_is_known() -> None:
    policy = FollowPolicy(deadline=at(10))
    for seen in (None, sight(Phase.RUNNING, known=False), sight(Phase.QUEUED)):
        assert due_clock(policy, seen, at(10)) is Clock.EXECUTION
        assert next_moment(policy, seen) == at(10)


def test_nothing_runs_out_where_no_limit_is_set() -> None:
    for phase in Phase:
        assert next_moment(FollowPolicy(), sight(phase)) is None


@given(st.sampled_from([Clock.QUEUE, Clock.START, Clock.HANG, Clock.EXECUTION]), st.floats(0.001, 1e7))
def test_who_stopped_a_run_can_be_read_again(clock: Clock, seconds: float) -> None:
    policy = FollowPolicy(queue_timeout=seconds, start_timeout=seconds, hang_timeout=seconds)
    assert expiry_of_stop(stopper(clock, policy)) is clock


@pytest.mark.parametrize("name", ["mia", "", "queue_timeouts", "fallback_after", "Airflow: execution_timeout"])
def test_people_are_no_clocks(name: str) -> None:
    assert expiry_of_stop(name) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1h30m"), (90, "1m30s"), (0.5, "0.5s"), (0, "0s"), (86400, "1d"), (61.0, "1m1s")]
)
def test_lengths_read_as_the_form_writes_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(("allowed", "failed", "due"), [(0, 0, False), (0, 1, True), (2, 2, False), (2, 3, True)])
def test_failed_pulls_over_the_allowed_number_are_due_at_once(allowed: int, failed: int, due: bool) -> None:
    seen = sight(Phase.STARTING, failed_pulls=failed)
    assert (due_clock(FollowPolicy(image_pull_retries=allowed), seen, at(200)) is Clock.IMAGE) is due


def test_event_of_a_failed_pull_names_the_replica_whose_state_does_not_tell_of_it_yet() -> None:
    replicas = (
        ReplicaStatus("master-0", "master", Phase.RUNNING, rank=0),
        ReplicaStatus("worker-0", "worker", Phase.STARTING, rank=1, reason="its containers are being made on node-1"),
    )
    text = 'worker-0: Failed: Failed to pull image "a/b:1": failed to resolve image: a/b:1: not found'
    events = (Event(time=at(190), text=text, warning=True),)
    status = Status(ref=REF, phase=Phase.STARTING, replicas=replicas, events=events, failed_pulls=1)
    failure = expiry_failure(Clock.IMAGE, FollowPolicy(image_pull_retries=0), status)
    assert (failure.category, failure.replica, failure.rank) == (FailureClass.IMAGE, "worker-0", 1)
    assert "a/b:1" in failure.summary


@pytest.mark.parametrize("allowed", [-1, None])
def test_pulls_may_fail_for_ever_where_nobody_limits_them(allowed: int | None) -> None:
    seen = sight(Phase.STARTING, failed_pulls=1000)
    assert next_moment(FollowPolicy(image_pull_retries=allowed), seen) is None
