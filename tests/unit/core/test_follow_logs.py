"""Which lines are shown, and that none is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.results import MARKER
from siflow_provider.core.status import Failure, FailureClass, JobRef, LogCursor, LogSelection, Phase
from siflow_provider.errors import UsageError
from siflow_provider.spec.task import RayJob
from tests.unit.core.following import DAY, follow_script
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Line, Script, now, phases
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("logs", "shown"),
    [
        ("master", ["master-0: m"]),
        ("all", ["master-0: m", "worker-0: w", "worker-1: v"]),
        ("none", []),
        (("worker-1",), ["worker-1: v"]),
    ],
)
async def test_only_the_chosen_replicas_are_shown_and_results_come_all_the_same(logs: object, shown: list[str]) -> None:
    lines = [
        Line(1, "m"),
        Line(2, "w", "worker-0"),
        Line(3, "v", "worker-1"),
        Line(4, '::siflow-result:: {"acc": 0.9}'),
        Line(5, '::siflow-result:: {"acc": 0.1}', "worker-0"),
    ]
    script = Script(phases((0, Phase.RUNNING), (10, Phase.SUCCEEDED)), lines)
    done = await follow_script(script, FollowPolicy.model_validate({"logs": logs}))
    assert [line for line in done.told.lines if "siflow-result" not in line] == shown
    assert done.outcome.results == {"acc": 0.9}


async def test_a_ray_job_speaks_through_its_submitter() -> None:
    lines = [
        Line(1, "hello", "submitter-0"),
        Line(1, "raylet", "head-0"),
        Line(2, "::siflow-result:: 7", "submitter-0"),
    ]
    done = await follow_script(Script(phases((0, Phase.RUNNING), (10, Phase.SUCCEEDED)), lines), kind=RayJob)
    assert done.told.lines == ["submitter-0: hello", "submitter-0: ::siflow-result:: 7"]
    assert done.outcome.results == 7


async def test_lines_of_the_last_second_are_shown_before_the_outcome() -> None:
    lines = [Line(59.9, f"line {number}") for number in range(20_000)]
    failure = Failure(category=FailureClass.CODE, summary="master-0 ended with exit code 1", exit_code=1)
    done = await follow_script(
        Script(phases((0, Phase.RUNNING), (60, Phase.FAILED), failure=failure), lines, log_outages=[(59, 61)])
    )
    assert done.outcome.kind is OutcomeKind.FAILED
    assert done.told.lines == [f"master-0: line {number}" for number in range(20_000)]
    assert done.outcome.failure is not None
    assert done.outcome.failure.last_lines == tuple(f"line {number}" for number in range(19_980, 20_000))
    assert done.told.warnings == ["the logs can't be read at the moment: connection refused; trying again"]


async def test_a_follower_that_starts_anew_goes_on_behind_the_last_line() -> None:
    script = Script(phases((0, Phase.RUNNING), (100, Phase.SUCCEEDED)), [Line(at, f"{at}") for at in range(1, 90)])
    backend, first, second = ScriptedBackend(script), Recorder(), Recorder()
    ref = await backend.submit(backend.render(make_task(), context()))
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), first, clock=now))
    await asyncio.sleep(40.5)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert backend.calls[-1].startswith("logs")  # nothing was stopped
    await follow(backend, ref, FollowPolicy(), second, cursor=first.cursors[-1], clock=now)
    assert first.lines + second.lines == [f"master-0: {at}" for at in range(1, 90)]


async def test_a_result_shown_by_an_earlier_follower_is_not_lost() -> None:
    lines = [Line(1, "::siflow-result:: 42"), Line(2, "later")]
    script = Script(phases((0, Phase.RUNNING), (10, Phase.SUCCEEDED)), lines)
    done = await follow_script(script, cursor=LogCursor(positions={"master-0": "1"}))
    assert done.told.lines == ["master-0: later"]
    assert done.outcome.results == 42


async def test_cursor_is_kept_at_most_once_a_second_and_only_behind_shown_lines() -> None:
    told = Recorder()
    shown_at_save: list[tuple[int, int]] = []

    class Checking(Recorder):
        async def checkpoint(self, cursor: LogCursor) -> None:
            await super().checkpoint(cursor)
            shown_at_save.append((len(self.lines), int(cursor.positions["master-0"])))

    told = Checking()
    lines = [Line(1 + number / 50, f"{number}") for number in range(500)]
    await follow_script(Script(phases((0, Phase.RUNNING), (30, Phase.SUCCEEDED)), lines), recorder=told)
    gaps = [later - earlier for earlier, later in zip(told.cursor_times, told.cursor_times[1:], strict=False)]
    assert len(told.cursors) >= 10
    assert all(gap >= 1.0 for gap in gaps[:-1])
    assert all(position <= shown for shown, position in shown_at_save)


async def test_logs_that_never_end_do_not_hold_back_the_outcome() -> None:
    script = Script(phases((0, Phase.RUNNING), (10, Phase.SUCCEEDED)), [Line(1, "a")], endless_logs=True)
    done = await follow_script(script)
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.warnings == ["the end of the logs does not come; lines may be missing"]
    assert asyncio.get_running_loop().time() < 60


async def test_logs_that_come_back_a_minute_after_the_end_are_shown() -> None:
    script = Script(phases((0, Phase.RUNNING), (1000, Phase.SUCCEEDED)), [Line(900, "a")], log_outages=[(800, 1060)])
    done = await follow_script(script)
    assert done.told.lines == ["master-0: a"]


async def test_logs_that_stay_away_do_not_hold_back_the_outcome_for_ever() -> None:
    script = Script(phases((0, Phase.RUNNING), (1000, Phase.SUCCEEDED)), [Line(900, "a")], log_outages=[(800, DAY)])
    done = await follow_script(script)
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert "the last log lines could not be read: connection refused" in done.told.warnings
    assert asyncio.get_running_loop().time() < 1400


async def test_a_replica_that_does_not_exist_is_told_and_results_are_read_all_the_same() -> None:
    class Strict(ScriptedBackend):
        async def logs(self, ref: JobRef, selection: LogSelection, *args: Any, **kwargs: Any) -> Any:
            if isinstance(selection, tuple):
                raise UsageError(f"{ref.name} has no replica {selection[0]!r}.")
            async for line in super().logs(ref, selection, *args, **kwargs):
                yield line

    script = Script(phases((0, Phase.RUNNING), (9, Phase.SUCCEEDED)), [Line(1, f"{MARKER} 3")])
    backend, told = Strict(script), Recorder()
    ref = await backend.submit(backend.render(make_task(), context()))
    outcome = await follow(backend, ref, FollowPolicy(logs=("worker-7",)), told, clock=now)
    assert outcome.results == 3
    assert told.warnings == [f"{ref.name} has no replica 'worker-7'."]


async def test_a_store_that_can_not_keep_the_cursor_is_told_once() -> None:
    class Broken(Recorder):
        async def checkpoint(self, cursor: LogCursor) -> None:
            raise OSError("disk full")

    lines = [Line(at, f"{at}") for at in range(1, 20)]
    done = await follow_script(Script(phases((0, Phase.RUNNING), (30, Phase.SUCCEEDED)), lines), recorder=Broken())
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.warnings == ["the place in the logs can't be remembered: disk full"]


async def test_last_place_is_kept_however_seldom_the_reporter_likes_it() -> None:
    told = Recorder()
    told.checkpoint_seconds = 30.0
    lines = [Line(at, f"{at}") for at in (1, 5, 20)]
    await follow_script(Script(phases((0, Phase.RUNNING), (25, Phase.SUCCEEDED)), lines), recorder=told)
    assert [cursor.positions["master-0"] for cursor in told.cursors] == ["1", "3"]
