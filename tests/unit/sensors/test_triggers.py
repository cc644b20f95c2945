"""The sensors' triggers by themselves: patient with a backend that is away, quiet while nothing changes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from siflow_provider.backends.settings import Settings
from siflow_provider.core.room import Demand, News
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.errors import AccessDenied, BackendUnavailable
from siflow_provider.hooks.siflow import SiflowHook
from siflow_provider.triggers.find import FindRunTrigger
from siflow_provider.triggers.quota import QuotaTrigger
from tests.unit.core.tasks import make_task
from tests.unit.sensors.scripted import NEVER, SHORT, UNREACHABLE, Scripted, report

REF = JobRef(backend="local", kind="PyTorchJob", name="bert-3f9c1a7", uid="u1", task_uuid="t1")


class Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, text: str, *values: Any) -> None:
        self.said.append(text % values)

    warning = info


def quota_trigger() -> tuple[QuotaTrigger, Log]:
    trigger = QuotaTrigger(demand=Demand.of(make_task(workers=1)).model_dump(mode="json"), interval=0)
    return trigger, given_log(trigger)


def given_log(trigger: Any) -> Log:
    log = Log()
    trigger._log = log
    return log


async def test_a_backend_that_is_away_is_waited_for() -> None:
    Scripted.reset(report())
    Scripted.closed_doors.extend([UNREACHABLE, UNREACHABLE])
    trigger, log = quota_trigger()
    event = await anext(trigger.run())
    assert event.payload["fits"] is True
    assert log.said == ["no room yet: quota is not known: the API server does not answer."]


async def test_one_backend_serves_the_whole_wait() -> None:
    Scripted.reset(*[report(available=SHORT)] * 5, report())
    trigger, log = quota_trigger()
    assert (await anext(trigger.run())).payload["room"] == {"instance": "in-place", "queue": "od-h100"}
    assert len(Scripted.opened) == 1
    assert len(log.said) == 1


async def test_proof_that_it_can_never_fit_ends_the_wait() -> None:
    Scripted.reset(report(available=SHORT), report(available=NEVER, ever=NEVER))
    trigger, _ = quota_trigger()
    payload = (await anext(trigger.run())).payload
    assert (payload["fits"], payload["error"]) == (False, "")
    assert "have 0 GPUs" in payload["text"]


async def test_a_login_that_is_refused_is_said_at_once() -> None:
    Scripted.reset(report())
    Scripted.closed_doors.append(AccessDenied("the token has expired.", hint="Renew it."))
    trigger, _ = quota_trigger()
    assert (await anext(trigger.run())).payload["error"] == "the token has expired. Renew it."


async def test_a_triggerer_that_sees_another_backend_says_so() -> None:
    Scripted.reset(report())
    payload = (await anext(QuotaTrigger(backend="kubernetes").run())).payload
    assert "but the run is on 'kubernetes'" in payload["error"]


async def test_looking_for_a_run_is_patient_and_complains_once() -> None:
    Scripted.reset(report())
    Scripted.closed_doors.extend([UNREACHABLE, UNREACHABLE])
    Scripted.found = staticmethod(lambda: [Status(ref=REF, phase=Phase.QUEUED)])
    trigger = FindRunTrigger(name=REF.name, interval=0, deadline="2026-01-01T00:00:00+00:00")
    log = given_log(trigger)
    payload = (await anext(trigger.run())).payload
    assert payload == {
        "ref": REF.model_dump(mode="json"),
        "veil": {"salt": "", "marks": []},
        "error": "",
        "deadline": "2026-01-01T00:00:00+00:00",
    }
    assert log.said == ["no answer from the backend, trying again: the API server does not answer."]


@pytest.mark.parametrize("kind", [QuotaTrigger, FindRunTrigger])
async def test_an_airflow_that_can_not_tell_of_the_connection_is_waited_for(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted.reset(report())
    Scripted.found = staticmethod(lambda: [Status(ref=REF, phase=Phase.QUEUED)])
    asked, ask = [], SiflowHook.asettings

    async def busy_at_first(hook: SiflowHook, *, expected: str = "") -> Settings:
        asked.append(expected)
        if len(asked) < 3:
            raise BackendUnavailable("Airflow can't tell now")
        return await ask(hook, expected=expected)

    monkeypatch.setattr(SiflowHook, "asettings", busy_at_first)
    own = {"name": REF.name} if kind is FindRunTrigger else {"demand": quota_trigger()[0].demand}
    trigger = kind(**own, interval=0)
    log = given_log(trigger)
    assert not (await anext(trigger.run())).payload["error"]
    assert len(log.said) == 1
    assert "Airflow can't tell now" in log.said[0]


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [QuotaTrigger, FindRunTrigger])
async def test_an_event_waits_until_the_scheduler_can_tell_the_legs_apart(kind: Any) -> None:
    Scripted.reset(report())
    Scripted.found = staticmethod(lambda: [Status(ref=REF, phase=Phase.QUEUED)])
    own = {"name": REF.name} if kind is FindRunTrigger else {"demand": quota_trigger()[0].demand}
    trigger = kind(**own, deferred_at=datetime.now(UTC).isoformat())
    trigger.task_instance = SimpleNamespace(task_id="wait")
    before = asyncio.get_running_loop().time()
    assert not (await anext(trigger.run())).payload["error"]
    assert asyncio.get_running_loop().time() - before > 2


@pytest.mark.parametrize("trigger", [QuotaTrigger(deferred_at="2026-01-01T00:00:00+00:00"), FindRunTrigger()])
def test_a_trigger_comes_back_from_the_database_as_it_was(trigger: Any) -> None:
    path, kwargs = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(import_module(module), name)(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)


def test_an_unchanged_reason_is_said_again_after_a_long_time() -> None:
    moments = iter([0.0, 10.0, 899.0, 901.0, 902.0, 903.0])
    news = News(900, clock=lambda: next(moments))
    assert [news.is_new(text) for text in ["a", "a", "a", "a", "b", "a"]] == [True, False, False, True, True, True]
