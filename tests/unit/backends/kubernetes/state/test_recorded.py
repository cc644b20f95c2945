"""Whole lives of runs, as a real control plane showed them, step by step (`record.py` records them again)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from siflow_provider.backends.kubernetes.state.status import phase_of, status_of
from siflow_provider.core.status import FailureClass, Phase, Status
from tests.unit.backends.kubernetes.state.recording import FOLDER, read
from tests.unit.backends.kubernetes.state.scenarios import SCENARIOS

AFTERWARDS = 10.0
ORDER = {Phase.QUEUED: 0, Phase.STARTING: 1, Phase.RUNNING: 2}


@dataclass(frozen=True)
class End:
    """How a run ended: phase, class, a word of the reason, the replica that failed."""

    phase: Phase
    category: FailureClass | None = None
    text: str = ""
    replica: str | None = None


ENDS = {
    "pytorch-succeeds": End(Phase.SUCCEEDED),
    "pytorch-queued-preempted-succeeds": End(Phase.SUCCEEDED),
    "pytorch-worker-fails": End(Phase.FAILED, FailureClass.CODE, "ended with exit code 1", "worker-0"),
    "pytorch-out-of-memory": End(Phase.FAILED, FailureClass.OUT_OF_MEMORY, "its memory ran out", "worker-0"),
    "pytorch-master-ends-first": End(
        Phase.SUCCEEDED, text="the master ended with 0; cut off by that: worker-0 (rank 1), worker-1 (rank 2)"
    ),
    "pytorch-pod-deleted": End(Phase.FAILED, FailureClass.PLATFORM, "deleted by somebody while it ran", "worker-1"),
    "pytorch-stopped": End(Phase.STOPPED, text="stopped by ana"),
    "pytorch-deleted": End(Phase.LOST, FailureClass.LOST, "deleted by somebody else"),
    "pytorch-image": End(Phase.STOPPED, text="stopped by ana"),
    "pytorch-no-node": End(Phase.STOPPED, text="stopped by ana"),
    "pytorch-over-resource-quota": End(Phase.STOPPED, text="stopped by ana"),
    "pytorch-time-is-up": End(Phase.FAILED, FailureClass.TIMEOUT, "admitted longer than"),
    "real-out-of-memory": End(Phase.FAILED, FailureClass.OUT_OF_MEMORY, "memory ran out", "worker-0"),
    "real-no-image": End(Phase.STOPPED, text="stopped by ana"),
    "real-invalid-image": End(Phase.FAILED, FailureClass.IMAGE, "must be lowercase", "master-0"),
    "real-no-secret": End(Phase.STOPPED, text="stopped by ana"),
    "real-no-volume": End(Phase.STOPPED, text="stopped by ana"),
    "real-no-program": End(Phase.FAILED, FailureClass.CODE, "no such file or directory", "master-0"),
    "real-ray-driver-fails": End(Phase.FAILED, FailureClass.CODE, "No module named 'trainer'", "submitter-0"),
    "real-ray-head-lost": End(Phase.FAILED, FailureClass.NODE_LOST, "head-0", "head-0"),
    "ray-succeeds": End(Phase.SUCCEEDED),
    "ray-driver-fails": End(Phase.FAILED, FailureClass.CODE, "exit code 1", "submitter-0"),
    "ray-preempted-succeeds": End(Phase.SUCCEEDED),
    "ray-over-resource-quota": End(Phase.STOPPED, text="stopped by ana"),
    "ray-submitter-fails": End(Phase.FAILED, FailureClass.CODE, "ended with exit code 1", "submitter-0"),
    "ray-invalid": End(Phase.FAILED, FailureClass.PLATFORM, "KubeRay refuses the job"),
}
NAMES = sorted(ENDS)


def statuses(name: str) -> list[tuple[datetime, Status]]:
    """Return the run's snapshots: at each step, just before the next one, and some time after the last."""
    recording = read(name)
    steps = list(recording.seen())
    out = []
    for index, (time, seen) in enumerate(steps):
        following = steps[index + 1][0] if index + 1 < len(steps) else time + timedelta(seconds=AFTERWARDS)
        for moment in (time, max(time, following - timedelta(milliseconds=1))):
            status = status_of(recording.ref, seen, moment)
            assert status.phase is phase_of(recording.ref, seen, moment)
            out.append((moment, status))
    return out


def test_every_scenario_is_recorded_and_judged() -> None:
    assert sorted(SCENARIOS) == NAMES
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_run_ends_as_it_did(name: str) -> None:
    status, end = statuses(name)[-1][1], ENDS[name]
    assert status.phase is end.phase
    assert end.text in status.reason
    assert (status.failure.category if status.failure else None) == end.category
    assert (status.failure.replica if status.failure else None) == end.replica


@pytest.mark.parametrize("name", NAMES)
def test_phases_never_go_backwards_but_by_a_requeue(name: str) -> None:
    last: Status | None = None
    for _, status in statuses(name):
        assert status.phase is not Phase.UNKNOWN
        if last is not None and last.phase.terminal:
            assert status.phase is last.phase
        elif last is not None and not status.phase.terminal and ORDER[status.phase] < ORDER[last.phase]:
            assert status.phase is Phase.QUEUED
            assert last.queue is not None
            assert status.queue is not None
            assert status.queue.requeues == last.queue.requeues + 1
        last = status


@pytest.mark.parametrize("name", NAMES)
def test_times_are_in_order_and_what_is_paid_for_never_shrinks(name: str) -> None:
    paid, queued = 0.0, 0.0
    for now, status in statuses(name)[::2]:
        times = [status.submitted_at, status.admitted_at, status.running_at, status.ended_at]
        known = [time for time in times if time is not None]
        assert known == sorted(known)
        assert status.submitted_at is not None
        held = status.running_seconds(now)
        age = (status.ended_at or now) - status.submitted_at
        assert held + status.queued_seconds <= age.total_seconds() + 3  # Kubernetes keeps whole seconds
        assert held >= paid - 2
        assert status.queued_seconds >= queued - 5  # the recorder takes seconds for a step
        paid, queued = held, status.queued_seconds


@pytest.mark.parametrize("name", [name for name in NAMES if "preempted" in name])
def test_preempted_run_is_queued_and_told_as_a_requeue_inside_its_attempt(name: str) -> None:
    seen = [status for _, status in statuses(name)]
    waiting = [each for each in seen if each.phase is Phase.QUEUED and each.queue is not None and each.queue.requeues]
    assert waiting
    assert {each.queue.reason for each in waiting if each.queue} == {
        "preempted by a job of higher priority in the same queue"
    }
    assert seen[-1].held_before > 0
    assert seen[-1].ref.attempt == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytorch-no-node", "nvidia.com/gpu is short on 4 of 4 nodes"),
        ("pytorch-image", "ImagePullBackOff: the image registry.example/a:1 can't be pulled"),
        ("real-no-image", "ErrImagePull: the image registry.invalid/none:1 can't be pulled: failed to pull"),
        ("real-no-secret", 'container pytorch can\'t start: secret "nobody-made-it" not found'),
        ("real-no-volume", 'volume data can\'t be mounted: MountVolume.SetUp failed for volume "data"'),
        ("pytorch-over-resource-quota", "the namespace's quota state-recording has no room: requested pods=1"),
        ("ray-over-resource-quota", "the namespace's quota state-recording has no room: requested pods=1"),
    ],
)
def test_start_that_can_not_come_says_why(name: str, text: str) -> None:
    starting = [status for _, status in statuses(name) if status.phase is Phase.STARTING]
    assert any(text in status.reason for status in starting)


def test_failed_pulls_are_seen_and_counted_by_the_kubelets_events() -> None:
    assert max(status.failed_pulls for _, status in statuses("pytorch-image")) == 1
    counts = [status.failed_pulls for _, status in statuses("real-no-image") if not status.phase.terminal]
    assert counts == sorted(counts)
    assert counts[-1] >= 2


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("ray") and SCENARIOS[name].queued])
def test_ray_job_in_a_queue_is_never_starting_before_its_admission(name: str) -> None:
    for _, status in statuses(name):
        assert status.phase is Phase.QUEUED or status.admitted_at is not None


@pytest.mark.parametrize("name", [name for name in NAMES if ENDS[name].phase is Phase.SUCCEEDED])
def test_run_that_succeeded_had_all_its_replicas_and_gpus(name: str) -> None:
    running = [status for _, status in statuses(name) if status.phase is Phase.RUNNING]
    assert running
    assert all(status.running_at is not None for status in running)
    replicas = 3 if name.startswith("pytorch") else 4
    assert {len(status.replicas) for status in running} == {replicas}
    assert {status.gpus for status in running} == {3.0}
