from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from siflow_provider.core.outcome import AlertRule, FollowPolicy, OutcomeKind
from siflow_provider.core.status import Failure, FailureClass, Phase, Status
from tests.unit.core.following import follow_script
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, moment, phases

pytestmark = pytest.mark.looptime

EVERYTHING = AlertRule(
    events=dict.fromkeys(("submitted", "started", "retrying", "hang", "succeeded", "failed", "stopped"), 0.0)
    | {"queued_too_long": 1800.0},
    connections=("oncall",),
)
POLICY = FollowPolicy(alerts=(EVERYTHING,))


def events(recorder: Recorder) -> list[str]:
    return [event for event, _ in recorder.alerts]


async def test_each_event_of_a_good_run_is_told_once() -> None:
    steps = phases((0, Phase.QUEUED), (7200, Phase.STARTING), (7300, Phase.RUNNING), (7310, Phase.SUCCEEDED))
    steps.insert(1, (3600, {"phase": Phase.QUEUED, "reason": "still"}))
    done = await follow_script(Script(steps), POLICY)
    assert events(done.told) == ["submitted", "queued_too_long", "started", "succeeded"]
    assert done.told.alerts[1][1] == f"{done.outcome.ref.name} has been in the queue for 30m"


async def test_a_run_that_ended_before_it_was_seen_running_had_started() -> None:
    steps = phases((0, Phase.FAILED), running_at=moment(0))
    done = await follow_script(Script(steps), POLICY)
    assert events(done.told) == ["submitted", "started", "failed"]


@pytest.mark.parametrize(
    ("step", "policy", "event"),
    [
        ({"phase": Phase.STOPPED, "stopped_by": "mia"}, {}, "stopped"),
        ({"phase": Phase.LOST}, {}, "failed"),
        ({"phase": Phase.FAILED}, {}, "failed"),
        ({"phase": Phase.FAILED}, {"max_retries": 1, "retry_on": ("platform",)}, "retrying"),
    ],
)
async def test_the_end_has_the_right_word(step: dict[str, object], policy: dict[str, object], event: str) -> None:
    script = Script([(0.0, {"phase": Phase.RUNNING}), (5.0, step)])
    done = await follow_script(script, POLICY.model_copy(update=policy))
    assert events(done.told) == ["submitted", "started", event]


async def test_a_timeout_is_told_as_a_failure_with_its_reason() -> None:
    done = await follow_script(Script(phases((0, Phase.RUNNING))), POLICY.model_copy(update={"deadline": moment(9)}))
    assert events(done.told) == ["submitted", "started", "failed"]
    assert "timeout: execution_timeout" in done.told.alerts[-1][1]


async def test_a_hang_is_told_before_the_failure() -> None:
    done = await follow_script(Script(phases((0, Phase.RUNNING))), POLICY.model_copy(update={"hang_timeout": 60.0}))
    assert events(done.told) == ["submitted", "started", "hang", "failed"]


async def test_each_rule_hears_only_of_its_own_events() -> None:
    failed = AlertRule(events={"failed": 0.0}, connections=("a",))
    late = AlertRule(events={"queued_too_long": 60.0}, connections=("b",))
    later = AlertRule(events={"queued_too_long": 600.0}, connections=("c",))
    heard: list[tuple[str, str, float]] = []

    class Listening(Recorder):
        async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
            heard.append((rule.connections[0], event, asyncio.get_running_loop().time()))

    failure = Failure(category=FailureClass.CODE, summary="wrong")
    script = Script(phases((0, Phase.QUEUED), (300, Phase.FAILED), failure=failure))
    await follow_script(script, FollowPolicy(alerts=(failed, late, later)), recorder=Listening())
    assert [(who, event) for who, event, _ in heard] == [("b", "queued_too_long"), ("a", "failed")]
    assert heard[0][2] == pytest.approx(60, abs=1)


async def test_a_slow_channel_delays_nothing_but_the_last_seconds() -> None:
    class Slow(Recorder):
        async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
            await asyncio.sleep(3600)

    done = await follow_script(Script(phases((0, Phase.RUNNING), (60, Phase.SUCCEEDED))), POLICY, recorder=Slow())
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert asyncio.get_running_loop().time() < 70
    assert done.told.warnings == ["3 alert(s) were not delivered in time and are left behind"]


async def test_several_channels_that_do_not_even_let_go_hold_the_end_up_for_six_seconds_together() -> None:
    stuck = True

    class Stuck(Recorder):
        async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
            while stuck:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)

    policy = FollowPolicy(alerts=tuple(EVERYTHING.model_copy(update={"connections": (each,)}) for each in "abc"))
    try:
        done = await follow_script(Script(phases((0, Phase.RUNNING), (60, Phase.SUCCEEDED))), policy, recorder=Stuck())
    finally:
        stuck = False  # what is left behind ends with the test: a closing loop waits for it, in real time
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert asyncio.get_running_loop().time() <= 66.5
    assert done.told.warnings == ["9 alert(s) were not delivered in time and are left behind"]


async def test_a_dead_channel_changes_nothing_and_is_told() -> None:
    class Dead(Recorder):
        async def alert(self, rule: AlertRule, event: str, status: Status, text: str) -> None:
            raise ConnectionError("no route to host")

    done = await follow_script(Script(phases((0, Phase.RUNNING), (60, Phase.SUCCEEDED))), POLICY, recorder=Dead())
    assert done.outcome.kind is OutcomeKind.SUCCEEDED
    assert done.told.warnings[0] == "the alert 'submitted' could not be sent: no route to host"
