"""`image_pull_retries` counts failed pulls of a replica, whatever of events and states can be seen."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.pulls import PullCounts
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.clocks import Clock, Sight, due_clock
from siflow_provider.core.outcome import FollowPolicy
from tests.unit.backends.kubernetes.state.objects import clock, condition, event, pod, pytorchjob, ref, waiting
from tests.unit.backends.kubernetes.state.recording import read

CREATED = pytorchjob(condition("Created", after=0))
FAILED, BACK_OFF, MAKING = "ErrImagePull", "ImagePullBackOff", "ContainerCreating"


def replica(reason: str, name: str = "worker-0") -> dict[str, Any]:
    return pod(name, "Pending", main=waiting(reason))


def counted(*reasons: str, every: float = 1.0) -> list[int]:
    """Return how many failed pulls are told at each state of one replica, without any event."""
    counts, out = PullCounts(), []
    for number, reason in enumerate(reasons):
        now, pods = clock(10 + number * every), (replica(reason),)
        seen = Seen(job=CREATED, pods=pods, pulls=counts.see(pods, now), blind=frozenset({"events"}))
        out.append(status_of(ref(), seen, now).failed_pulls)
    return out


def test_failed_pulls_are_counted_by_states_where_events_can_not_be_read() -> None:
    assert counted(MAKING, FAILED, FAILED, BACK_OFF, BACK_OFF, FAILED, BACK_OFF, FAILED) == [0, 1, 1, 1, 1, 2, 2, 3]


def test_pull_whose_failure_was_missed_is_known_by_its_back_off() -> None:
    assert counted(MAKING, BACK_OFF, FAILED) == [0, 1, 2]


@pytest.mark.parametrize("reason", ["RegistryUnavailable", "SignatureValidationFailed"])
def test_pull_that_the_runtime_names_in_its_own_word_has_failed_like_any_other(reason: str) -> None:
    assert counted(reason, BACK_OFF, FAILED, BACK_OFF, reason) == [1, 1, 2, 2, 3]


def test_image_that_may_not_be_pulled_counts_with_each_look_for_it() -> None:
    assert counted(*["ErrImageNeverPull"] * 5, every=10.0) == [1, 1, 2, 3, 3]


def test_replica_that_got_its_image_counts_no_more() -> None:
    assert counted(FAILED, BACK_OFF, MAKING) == [1, 1, 0]


def test_each_replica_has_a_count_of_its_own_and_the_largest_is_told() -> None:
    counts, told = PullCounts(), {}
    for first, second in ((FAILED, MAKING), (BACK_OFF, FAILED), (FAILED, BACK_OFF)):
        told = counts.see((replica(first), replica(second, "worker-1")), clock(10))
    assert told == {"worker-0-uid": 2, "worker-1-uid": 1}


def test_looks_that_events_tell_count_too() -> None:
    never = replica("ErrImageNeverPull")
    text = 'Container image "img" is not present with pull policy of Never'
    events = (event(never, "ErrImageNeverPull", text, count=4), event(never, "Failed", "Error: ErrImageNeverPull"))
    assert status_of(ref(), Seen(job=CREATED, pods=(never,), events=events), clock(10)).failed_pulls == 4


@pytest.mark.parametrize(("allowed", "due_at"), [(0, 0), (1, 1), (3, 3), (-1, None), (None, None)])
def test_replica_that_may_not_pull_its_image_is_given_up_after_as_many_looks_as_the_form_allows(
    allowed: int | None, due_at: int | None
) -> None:
    counts, policy, due = PullCounts(), FollowPolicy(image_pull_retries=allowed), []
    for number in range(6):
        now, pods = clock(10 + number * 15), (replica("ErrImageNeverPull"),)
        status = status_of(ref(), Seen(job=CREATED, pods=pods, pulls=counts.see(pods, now)), now)
        sight = Sight(status, seen_at=now, phase_since=clock(0), active_at=None)
        due.append(due_clock(policy, sight, now) is Clock.IMAGE)
    assert (due.index(True) if True in due else None) == due_at


def test_states_of_a_real_kubelet_count_as_its_events_do() -> None:
    recording, counts, most = read("real-no-image"), PullCounts(), []
    for now, seen in recording.seen():
        by_states = max(counts.see(seen.pods, now).values(), default=0)
        most.append((by_states, status_of(recording.ref, seen, now).failed_pulls))
    assert max(by_states for by_states, _ in most) == max(by_events for _, by_events in most) == 2
