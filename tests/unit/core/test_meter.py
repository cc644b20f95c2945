"""What a run cost whose size changes: each stretch counts with its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.core.meter import Sizes
from siflow_provider.core.status import Phase
from siflow_provider.spec.task import RayJob
from tests.unit.core.following import follow_script
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, moment


def scaled(*steps: tuple[float, float], ended: float) -> Script:
    """Return a run that was admitted at once and has so many GPUs from each moment on."""
    known: dict[str, Any] = {"submitted_at": moment(0), "admitted_at": moment(0)}
    phases: list[tuple[float, dict[str, Any]]] = [
        (at, {**known, "phase": Phase.RUNNING, "gpus": gpus}) for at, gpus in steps
    ]
    last = {**known, "phase": Phase.SUCCEEDED, "gpus": 0.0, "ended_at": moment(ended)}
    return Script([*phases, (ended, last)])


@pytest.mark.looptime
async def test_gpu_hours_of_a_run_that_grew_and_shrank_are_the_sum_over_its_sizes() -> None:
    done = await follow_script(scaled((0, 2), (3600, 8), (5400, 1), ended=9000), kind=RayJob)
    assert done.outcome.summary()["gpu_hours"] == 2 + 4 + 1
    assert done.outcome.totals.running_seconds == 9000


@pytest.mark.looptime
async def test_a_follower_that_starts_anew_counts_what_the_one_before_saw() -> None:
    told = Recorder()
    await follow_script(scaled((0, 2), (100, 4), ended=200), recorder=told, kind=RayJob)
    kept = told.kept_sizes[-1]
    assert kept.changes[:2] == ((0.0, 2.0), (100.0, 4.0))
    later = await follow_script(scaled((0, 4), ended=200), sizes=kept, kind=RayJob)
    assert later.outcome.totals.gpu_seconds == 2 * 100 + 4 * 100
    another = await follow_script(
        scaled((0, 4), ended=200), sizes=kept.model_copy(update={"uid": "of an earlier attempt"}), kind=RayJob
    )
    assert another.outcome.totals.gpu_seconds == 4 * 200


@pytest.mark.looptime
async def test_nothing_is_kept_of_a_run_that_keeps_its_size() -> None:
    script = scaled((0, 2), ended=50)
    script.phases[-1][1]["gpus"] = 2.0
    done = await follow_script(script)
    assert done.outcome.totals.gpu_seconds == 100
    assert done.told.kept_sizes == []


@pytest.mark.looptime
async def test_time_in_the_queue_between_two_stays_costs_nothing() -> None:
    stays: list[tuple[float, dict[str, Any]]] = [
        (0, {"phase": Phase.RUNNING, "admitted_at": moment(0), "gpus": 4.0}),
        (100, {"phase": Phase.QUEUED, "held_before": 100.0, "gpus": 4.0}),
        (500, {"phase": Phase.RUNNING, "held_before": 100.0, "admitted_at": moment(500), "gpus": 2.0}),
        (600, {"phase": Phase.SUCCEEDED, "held_before": 100.0, "admitted_at": moment(500), "ended_at": moment(600)}),
    ]
    done = await follow_script(Script([(at, {**fields, "submitted_at": moment(0)}) for at, fields in stays]))
    assert done.outcome.totals.gpu_seconds == 4 * 100 + 2 * 100


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 64)), min_size=1, max_size=8))
def test_the_sum_is_that_of_the_seconds_one_by_one(stretches: list[tuple[int, int]]) -> None:
    sizes, second, expected = Sizes(), 0, 0
    for length, gpus in stretches:
        sizes = sizes.with_size(float(second), float(gpus))
        second, expected = second + length, expected + length * gpus
    assert sizes.gpu_seconds(float(second)) == expected
    assert sizes.gpu_seconds(0.0) == 0
