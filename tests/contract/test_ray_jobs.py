"""The same contract for RayJobs, on a real Ray cluster: the submitter speaks for the run."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.status import FailureClass, Phase
from tests.contract.life import Told, expect_nothing_running, read, start, texts, until
from tests.contract.world import World

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

SQUARES = """python - <<'END'
import ray
ray.init()
@ray.remote
def square(n):
    return n * n
print("squares", ray.get([square.remote(n) for n in range(4)]))
print("nodes", len([node for node in ray.nodes() if node["Alive"]]) > 0)
END
echo '{"loss": 0.5}' > "$SIFLOW_RESULTS"
"""


async def test_a_ray_job_runs_on_its_own_cluster_and_reports(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task(SQUARES, kind="RayJob", workers=1))
    outcome = await follow(backend, ref, FollowPolicy(), told := Told())
    assert outcome.kind is OutcomeKind.SUCCEEDED, outcome.failure
    assert outcome.results == {"loss": 0.5}
    shown = texts(told.lines, "submitter-0")
    assert "squares [0, 1, 4, 9]" in shown
    assert "nodes True" in shown
    assert {line.replica for line in told.lines} == {"submitter-0"}
    status = await backend.status(ref)
    assert {"head-0", "worker-0"} <= {replica.name for replica in status.replicas}
    assert status.running_at is not None
    assert await read(backend, ref, ("head-0",))
    await expect_nothing_running(world, ref)


async def test_a_failing_ray_job_names_its_exit_code_and_last_lines(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo 'wrong input'; exit 7", kind="RayJob"))
    outcome = await follow(backend, ref, FollowPolicy(max_retries=2), told := Told())
    assert outcome.kind is OutcomeKind.FAILED
    assert any("exit code 7" in text for text in (*told.warnings, *told.notes))
    failure = outcome.failure
    assert failure is not None
    assert (failure.category, failure.replica, failure.exit_code) == (FailureClass.CODE, "submitter-0", 7)
    assert "wrong input" in failure.last_lines
    await expect_nothing_running(world, ref)


async def test_a_stopped_ray_job_leaves_no_cluster_behind(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600", kind="RayJob"))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    await told.until_line("begun")
    await backend.stop(ref, by="mia")
    outcome = await following
    assert (outcome.kind, outcome.phase) == (OutcomeKind.STOPPED, Phase.STOPPED)
    await expect_nothing_running(world, ref)


async def test_a_cluster_that_does_not_come_up_in_time_ends_with_its_own_reason(
    world: World, backend: TrainingBackend
) -> None:
    ref = await start(backend, world.task("echo never", kind="RayJob"))
    await until(backend, ref, lambda status: status.admitted_at is not None)
    outcome = await follow(backend, ref, FollowPolicy(start_timeout=0.5), told := Told())
    assert outcome.failure is not None
    assert outcome.failure.category is FailureClass.TIMEOUT
    assert "start_timeout of 0.5s" in outcome.failure.summary
    assert told.lines == []
    await expect_nothing_running(world, ref)
