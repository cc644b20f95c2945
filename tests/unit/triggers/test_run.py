"""The trigger on real processes of this machine: one event, each line once, and only a user's action ends a run."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.outcome import AlertRule, FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.core.veil import Veil
from siflow_provider.errors import AccessDenied, BackendUnavailable, ConnectionMissing, SiflowError, UsageError
from siflow_provider.hooks.siflow import SiflowHook
from siflow_provider.spec import PyTorchJob
from siflow_provider.spec.resolve import resolve
from siflow_provider.triggers import killed
from siflow_provider.triggers.killed import killed_by
from siflow_provider.triggers.run import Carried, RunTrigger
from siflow_provider.triggers.settle import settling_moment
from tests.unit.triggers.airflow import Airflow, first_event, submitted, trigger_for, wait_phase

pytestmark = pytest.mark.runs


async def test_event_carries_the_outcome_and_all_that_the_next_leg_needs(airflow: Airflow, backend: Any) -> None:
    ref = await submitted(backend, "echo '{\"loss\": 1}' > $SIFLOW_RESULTS")
    event = await first_event(trigger_for(ref))
    assert event.outcome.kind is OutcomeKind.SUCCEEDED
    assert event.outcome.results == {"loss": 1}
    assert event.carried == Carried(prefix="d-t")


async def test_lines_that_an_earlier_triggerer_showed_are_not_shown_again(
    airflow: Airflow, backend: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = await submitted(backend, "for i in 1 2 3 4; do echo line $i; done")
    folder = tmp_path / "logs" / "dag_id=d" / "run_id=r" / "task_id=t"
    folder.mkdir(parents=True)
    events = [f"following {ref.name}", "[master-0] line 1", "[master-0] line 2"]
    (folder / "attempt=1.log.trigger.9.log.earlier.log").write_text(
        "".join(json.dumps({"event": text}) + "\n" for text in events)
    )
    await first_event(trigger_for(ref))
    out = capsys.readouterr().out
    assert f"following {ref.name}; shown before: master-0 2" in out
    assert [text for text in ("line 1", "line 2", "line 3", "line 4") if text in out] == ["line 3", "line 4"]


async def test_hidden_value_that_is_printed_is_masked_in_log_and_event(
    airflow: Airflow, backend: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = await submitted(backend, "echo token canary-7391; exit 3")
    event = await first_event(trigger_for(ref, veil=Veil.of(["canary-7391"])))
    assert event.outcome.failure is not None
    assert event.outcome.failure.last_lines == ("token ***",)
    assert "[master-0] token ***" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        r"""printf '{"loss\\u0000": 1, "nul": ["\\u0000"]}' > $SIFLOW_RESULTS""",
        r"printf 'bad \000 weights\n' >&2; exit 3",
    ],
    ids=["results", "last lines"],
)
async def test_what_a_training_prints_and_no_database_takes_stops_no_triggerer(
    airflow: Airflow, backend: Any, command: str
) -> None:
    event = await anext(trigger_for(await submitted(backend, command)).run())
    text = json.dumps(event.payload, ensure_ascii=False)
    assert "\N{REPLACEMENT CHARACTER}" in text
    assert "\\u0000" not in text  # PostgreSQL's jsonb refuses it


@pytest.mark.parametrize(
    "fault",
    [
        BackendUnavailable("Airflow can't tell now"),
        AccessDenied("may not read it now"),
        UsageError("there is no connection 'oncall'"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_run_that_can_not_be_followed_at_first_is_left_alone_and_looked_for_again(
    airflow: Airflow,
    backend: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: SiflowError,
) -> None:
    ref = await submitted(backend, "true")
    answered, ask = [], SiflowHook.asettings

    async def busy_at_first(hook: SiflowHook, *, expected: str = "") -> Settings:
        answered.append(expected)
        if len(answered) < 3:
            raise fault
        return await ask(hook, expected=expected)

    monkeypatch.setattr(SiflowHook, "asettings", busy_at_first)
    event = await first_event(trigger_for(ref))
    assert event.outcome.kind is OutcomeKind.SUCCEEDED
    assert capsys.readouterr().out.count(f"{ref.name} can't be followed now") == 1


@pytest.mark.parametrize(
    ("deferred", "followed"), [((0, 1), False), ((1, 1), True), ((0, 2), True)], ids=["now", "an hour ago", "again"]
)
async def test_connection_that_the_triggerer_never_had_ends_the_wait_and_one_that_went_is_waited_for(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch, deferred: tuple[int, int], followed: bool
) -> None:
    ref = await submitted(backend, "true")
    asked, ask = [], SiflowHook.asettings

    async def missing(hook: SiflowHook, *, expected: str = "") -> Settings:
        asked.append(expected)
        if len(asked) < 2:
            raise ConnectionMissing("there is no connection 'oncall' in the triggerer.", hint="Add it.")
        return await ask(hook, expected=expected)

    monkeypatch.setattr(SiflowHook, "asettings", missing)
    monkeypatch.setattr("siflow_provider.triggers.run._MENDING", timedelta())
    hours, part = deferred
    carried = Carried(prefix="d-t", deferred_at=datetime.now(UTC) - timedelta(hours=hours), part=part)
    event = await first_event(trigger_for(ref, carried=carried))
    if followed:
        assert (event.outcome.kind, event.blind) == (OutcomeKind.SUCCEEDED, "")
        return
    failure = event.outcome.failure
    assert event.outcome.kind is OutcomeKind.FAILED
    assert failure is not None
    assert failure.summary == (
        f"the worker submitted {ref.name}, but the triggerer can't follow it: "
        "there is no connection 'oncall' in the triggerer."
    )
    assert failure.hint == "Add it. Or wait in the worker: deferrable=False."
    assert event.blind


@pytest.mark.parametrize("state", ["failed", "success", "queued", None])
async def test_user_action_stops_the_run_even_when_airflow_gives_a_second(
    airflow: Airflow, backend: Any, state: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = await submitted(backend, "echo at work; sleep 60")
    await wait_phase(backend, ref, Phase.RUNNING)
    trigger = trigger_for(ref)
    airflow.state = state
    killing = asyncio.create_task(trigger.on_kill())
    await asyncio.sleep(0)
    killing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killing
    await wait_phase(backend, ref, Phase.STOPPED)
    assert str(killed_by(state)) in (await backend.status(ref)).stopped_by
    await asyncio.gather(*killed._running)
    assert f"{killed_by(state)}: stopping {ref.name}" in capsys.readouterr().out


async def test_a_users_action_is_known_though_airflow_says_it_again_while_logs_are_closed(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await submitted(backend, "sleep 600")
    followed, closing, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def follow(_: RunTrigger) -> None:
        followed.set()
        try:
            await asyncio.Event().wait()
        finally:
            closing.set()
            try:
                await closed.wait()
            except asyncio.CancelledError:
                raise asyncio.CancelledError from None  # as a library does that closes in its own way

    monkeypatch.setattr(RunTrigger, "_follow_patiently", follow)
    trigger = asyncio.create_task(first_event(trigger_for(ref)))
    await followed.wait()
    trigger.cancel("a user acted")
    await closing.wait()
    trigger.cancel("a user acted")
    with pytest.raises(asyncio.CancelledError) as caught:
        await trigger
    closed.set()
    assert caught.value.args == ("a user acted",)


async def test_takeover_by_another_triggerer_stops_nothing(airflow: Airflow, backend: Any) -> None:
    ref = await submitted(backend, "sleep 60")
    trigger = trigger_for(ref)
    await trigger.on_kill()
    await trigger.cleanup()
    assert not (await backend.status(ref)).phase.terminal


async def test_kill_after_its_own_event_stops_nothing(airflow: Airflow, backend: Any) -> None:
    ref = await submitted(backend, "true")
    trigger = trigger_for(ref)
    await first_event(trigger)
    other = trigger_for(await submitted_again(backend))
    airflow.state = "success"
    other._fired = True
    await other.on_kill()
    await trigger.on_kill()
    assert not (await backend.status(other.data.ref)).phase.terminal


async def submitted_again(backend: Any) -> JobRef:
    form = {
        "image": "registry.example/train:1",
        "command": "sleep 60",
        "compute": {"type": "on_demand", "instances": [{"cpu": "100m", "memory": "64Mi"}]},
    }
    context = RenderContext(identity=Identity(dag_id="d", task_id="other", run_id="r"))
    ref = await backend.submit(backend.render(resolve(PyTorchJob.model_validate(form)), context))
    assert isinstance(ref, JobRef)
    return ref


async def test_each_alert_goes_out_once_though_the_trigger_starts_anew(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, int]] = []

    async def send(_: AlertRule, event: str, status: Any, __: str) -> None:
        sent.append((event, status.ref.attempt))

    monkeypatch.setattr("siflow_provider.triggers.reporter.send_alert", send)
    rule = AlertRule(events={"submitted": 0, "started": 0, "succeeded": 0}, connections=("oncall",))
    ref = await submitted(backend, "sleep 1")
    for _ in range(2):
        await first_event(trigger_for(ref, policy=FollowPolicy(alerts=(rule,))))
    assert sorted(sent) == [("started", 1), ("submitted", 1), ("succeeded", 1)]


def test_event_waits_until_the_scheduler_can_tell_the_legs_apart() -> None:
    at = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)

    def wait(started_after: float) -> float:
        return (settling_moment(at, at + timedelta(seconds=started_after)) - at).total_seconds()

    assert [wait(seconds) for seconds in (-5, 0.5, 4, 100)] == [6, 6, 12, 30]
    assert settling_moment(None, at) == at


async def test_trigger_waits_for_its_last_line_to_be_written(airflow: Airflow, backend: Any, tmp_path: Path) -> None:
    ref = await submitted(backend, "echo only line")
    folder = tmp_path / "logs" / "dag_id=d" / "run_id=r" / "task_id=t"
    folder.mkdir(parents=True)
    log = folder / "attempt=1.log.trigger.9.log"
    log.write_text(json.dumps({"event": "trigger starting"}) + "\n")
    event = asyncio.create_task(first_event(trigger_for(ref)))
    await wait_phase(backend, ref, Phase.SUCCEEDED)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(event), 2)
    with log.open("a") as file:
        file.write(json.dumps({"event": f"followed {ref.name}: succeeded"}) + "\n")
    assert (await asyncio.wait_for(event, 5)).outcome is not None


async def test_trigger_of_a_cleared_try_does_not_wake_the_next_one(
    airflow: Airflow, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siflow_provider.triggers.run.CANCEL_SECONDS", 1.0)
    ref = await submitted(backend, "sleep 60")
    await wait_phase(backend, ref, Phase.RUNNING)
    event = asyncio.create_task(first_event(trigger_for(ref)))
    await backend.stop(ref, by="Airflow: a new try of the task")
    await wait_phase(backend, ref, Phase.STOPPED)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(event), 0.8)
    outcome = (await event).outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.STOPPED
