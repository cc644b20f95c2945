"""What a follower does at the end for a backend that judges without logs: pulls, evidence, and what is left over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, Phase
from tests.unit.core.following import follow_script
from tests.unit.core.script import Line, Script, phases, replica

pytestmark = pytest.mark.looptime

NOT_FOUND = 'ErrImagePull: the image a/b:1 can\'t be pulled: failed to resolve reference "a/b:1": a/b:1: not found'
FLAKE = "ErrImagePull: the image a/b:1 can't be pulled: i/o timeout"


def pulling(*failed: tuple[float, int], reason: str) -> list[tuple[float, dict[str, Any]]]:
    """Return a start during which pulls fail: (second, how many failed by then)."""
    replicas = (replica("master-0", Phase.RUNNING), replica("worker-0", Phase.STARTING, rank=1, reason=reason))
    steps: list[tuple[float, dict[str, Any]]] = [(0, {"phase": Phase.STARTING})]
    return steps + [
        (at, {"phase": Phase.STARTING, "failed_pulls": count, "replicas": replicas}) for at, count in failed
    ]


async def test_first_failed_pull_ends_the_task_where_none_is_allowed() -> None:
    done = await follow_script(Script(pulling((20, 1), reason=NOT_FOUND)), FollowPolicy(image_pull_retries=0))
    failure = done.outcome.failure
    assert failure is not None
    assert (done.outcome.kind, failure.category, failure.transient) == (OutcomeKind.FAILED, FailureClass.IMAGE, False)
    assert "image_pull_retries of 0: 1 failed pull" in failure.summary
    assert "worker-0 (rank 1)" in failure.summary
    assert "not found" in failure.summary
    assert "stop by image_pull_retries" in done.backend.calls
    assert done.backend.calls[-1] == "delete"
    assert 20 <= asyncio.get_running_loop().time() < 25


async def test_pulls_may_fail_as_often_as_allowed() -> None:
    steps = [*pulling((20, 1), (40, 2), reason=FLAKE), (60, {"phase": Phase.RUNNING}), (90, {"phase": Phase.SUCCEEDED})]
    done = await follow_script(Script(steps), FollowPolicy(image_pull_retries=2))
    assert done.outcome.kind is OutcomeKind.SUCCEEDED


async def test_a_flake_of_the_registry_is_tried_again_and_a_missing_image_is_not() -> None:
    policy = FollowPolicy(image_pull_retries=0, max_retries=1)
    flake = await follow_script(Script(pulling((20, 1), reason=FLAKE)), policy)
    assert flake.outcome.kind is OutcomeKind.RETRY
    missing = await follow_script(Script(pulling((20, 1), reason=NOT_FOUND)), policy)
    assert missing.outcome.kind is OutcomeKind.FAILED


async def test_an_end_that_leaves_an_own_run_in_its_place_is_followed_by_its_removal() -> None:
    failure = Failure(category=FailureClass.NODE_LOST, summary="head-0 is gone", replica="head-0", transient=True)
    steps = phases((0, Phase.RUNNING), (50, Phase.FAILED), failure=failure, leftover=True)
    done = await follow_script(Script(steps, [Line(10, "step 1")]))
    assert done.outcome.kind is OutcomeKind.FAILED
    assert done.told.lines == ["master-0: step 1"]
    assert done.backend.calls[-1] == "delete"
    watched = await follow_script(Script(steps), FollowPolicy(own=False))
    assert watched.outcome.kind is OutcomeKind.FAILED
    assert "delete" not in watched.backend.calls


async def test_an_end_that_the_cluster_knows_keeps_the_run() -> None:
    failure = Failure(category=FailureClass.CODE, summary="worker-0 ended", replica="worker-0", exit_code=1)
    done = await follow_script(Script(phases((0, Phase.RUNNING), (50, Phase.FAILED), failure=failure)))
    assert "delete" not in done.backend.calls


async def test_failed_worker_is_judged_by_its_own_last_lines_although_only_the_master_is_shown() -> None:
    failure = Failure(
        category=FailureClass.CODE, summary="worker-0 (rank 1) ended with exit code 1", replica="worker-0", rank=1,
        exit_code=1,
    )  # fmt: skip
    lines = [Line(10, "fine"), Line(11, "FileNotFoundError: /volume/x", "worker-0")]
    done = await follow_script(Script(phases((0, Phase.RUNNING), (50, Phase.FAILED), failure=failure), lines))
    assert done.outcome.failure is not None
    assert done.outcome.failure.category is FailureClass.DATA_PATH
    assert done.outcome.failure.last_lines == ("FileNotFoundError: /volume/x",)
    assert done.told.lines == ["master-0: fine"]


async def test_what_the_backend_says_about_a_log_is_shown_and_is_no_evidence() -> None:
    failure = Failure(category=FailureClass.CODE, summary="master-0 failed with exit code 1", replica="master-0")
    remark = Line(20, "--- master-0: its pod is gone; its last lines may be missing ---", remark=True)
    steps = phases((0, Phase.RUNNING), (50, Phase.FAILED), failure=failure)
    done = await follow_script(Script(steps, [Line(10, "step 1"), remark]))
    assert done.outcome.failure is not None
    assert done.outcome.failure.last_lines == ("step 1",)
    assert any(remark.text in line for line in done.told.lines)
