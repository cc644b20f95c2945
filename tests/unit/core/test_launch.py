from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import QuotaPolicy, launch, submit_to
from siflow_provider.core.protocol import FoundRun, Manifest
from siflow_provider.core.quota import Answer, Verdict
from siflow_provider.core.status import JobRef, Phase, QueuePlace
from siflow_provider.core.trail import Trail
from siflow_provider.errors import (
    AccessDenied,
    BackendError,
    BackendUnavailable,
    NameTaken,
    NeverAdmissibleError,
    Reason,
    UnsupportedError,
)
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, phases, room
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import IDENTITY, context, make_task

pytestmark = pytest.mark.looptime

RUNNING = Script(phases((0, Phase.RUNNING)))
ALERTS = ({"events": ("never_admissible",), "to": ("oncall",)},)


async def test_all_reasons_are_told_before_anything_is_done() -> None:
    backend, told = ScriptedBackend(), Recorder()
    backend.reasons = [Reason("compute.nodes", "OneNode", "one node only"), Reason("ssh", "NoSsh", "no sshd here")]
    with pytest.raises(UnsupportedError) as caught:
        await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert "compute.nodes" in str(caught.value)
    assert "ssh" in str(caught.value)
    assert backend.calls == []


async def test_warnings_come_first_then_the_look_then_quota_then_submit() -> None:
    backend, told = ScriptedBackend(RUNNING), Recorder()
    backend.doubts = ["the image is ignored"]
    launched = await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert backend.calls == ["find_each", "quota in-place", "submit 1"]
    assert not launched.adopted
    assert told.warnings == ["the image is ignored"]
    assert told.notes == [f"submitted PyTorchJob {launched.ref.name} to scripted"]


async def test_a_run_is_completed_where_it_is_although_the_form_names_another_place_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = ScriptedBackend(RUNNING)
    sent: list[tuple[str | None, str | None]] = []
    first = await backend.submit(backend.render(make_task(), context()))
    there = first.model_copy(update={"context": "there", "namespace": "ml"})
    backend.runs_by_name[first.name].ref = there

    async def submit(manifest: Manifest) -> JobRef:
        sent.append((manifest.task.context, manifest.task.namespace))
        return there

    async def find_each(runs: Sequence[Identity], *, trail: Trail) -> list[FoundRun | None]:
        assert trail.context == "here"
        return [FoundRun(there) if run == IDENTITY else None for run in runs]

    monkeypatch.setattr(backend, "submit", submit)
    monkeypatch.setattr(backend, "find_each", find_each)
    moved = replace(make_task(), context="here", namespace="web")
    launched = await launch(backend, moved, context(), quota="ignore", reporter=Recorder())
    assert (launched.ref, launched.adopted) == (there, True)
    assert sent == [("there", "ml")]


@pytest.mark.parametrize("queues", [("one", "two"), ("both", "both")])
async def test_an_adopted_run_is_completed_as_what_its_own_instance_needs(queues: tuple[str, str]) -> None:
    class Remembers(ScriptedBackend):
        sent: list[str]

        async def submit(self, manifest: Manifest) -> JobRef:
            self.sent.append(manifest.task.flavors[0].instance)
            return await super().submit(manifest)

    task = make_task(flavors=("a", "b"))
    task = replace(task, flavors=tuple(replace(f, queue=q) for f, q in zip(task.flavors, queues, strict=True)))
    script = Script(phases((0, Phase.RUNNING), queue=QueuePlace(queues[1])))
    backend = Remembers(script, quotas=[room(now_=False), room()])
    backend.sent = []
    for adopted in (False, True):
        launched = await launch(backend, task, context(), quota="require", reporter=Recorder())
        assert (launched.adopted, launched.flavor) == (adopted, 1)
    assert backend.sent == ["b", "b"]


async def test_a_run_that_exists_is_adopted_without_asking_for_quota() -> None:
    backend, told = ScriptedBackend(RUNNING, RUNNING), Recorder()
    await backend.submit(backend.render(make_task(), context()))
    second = await backend.submit(backend.render(make_task(), context(attempt=2)))
    backend.calls.clear()
    launched = await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert (launched.ref, launched.adopted) == (second, True)
    assert backend.calls == ["find_each", "find_each", "submit 2"]  # the first submission may have been cut short
    assert told.notes == [f"adopted {second.name}, attempt 2: this try had submitted it before"]


async def test_a_task_that_fits_later_is_submitted_with_the_reason_for_waiting() -> None:
    backend, told = ScriptedBackend(RUNNING, quotas=[room(now_=False)]), Recorder()
    await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert told.notes[0] == "no room now, the task will queue: the pool is full; gpu: need 8 GPUs, have 2 GPUs in main"


async def test_where_nothing_queues_that_is_told_and_no_queue_is_promised() -> None:
    report = replace(room(now_=False), queued=False)
    backend, told = ScriptedBackend(RUNNING, quotas=[report]), Recorder()
    await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert told.notes[:2] == [
        "nothing queues here: the job starts at once, and its pods wait for room one by one",
        "no room now, its pods will wait: the pool is full; gpu: need 8 GPUs, have 2 GPUs in main",
    ]


async def test_room_that_is_not_known_is_not_called_missing() -> None:
    unknown = Answer(Verdict.UNKNOWN, "the nodes can't be listed")
    report = replace(room(), available=unknown)
    backend, told = ScriptedBackend(RUNNING, quotas=[report]), Recorder()
    await launch(backend, make_task(), context(), quota="require", reporter=told)
    assert told.notes[0] == "whether there is room now is not known: the nodes can't be listed"


async def test_a_task_that_never_fits_is_refused_with_the_proof_and_an_alert() -> None:
    backend, told = ScriptedBackend(quotas=[room(now_=False, ever=False)]), Recorder()
    with pytest.raises(NeverAdmissibleError) as caught:
        await launch(backend, make_task(alerts=ALERTS), context(), quota="require", reporter=told)
    assert "no queue has that; gpu: need 8 GPUs, have 2 GPUs in main" in str(caught.value)
    assert backend.submitted == []
    assert [event for event, _ in told.alerts] == ["never_admissible"]


async def test_quota_warn_submits_and_says_why_it_will_not_run() -> None:
    backend, told = ScriptedBackend(RUNNING, quotas=[room(now_=False, ever=False)]), Recorder()
    await launch(backend, make_task(alerts=ALERTS), context(), quota="warn", reporter=told)
    assert len(backend.submitted) == 1
    assert told.warnings[0].startswith("this task can never be admitted: no queue has that")
    assert told.alerts == []


async def test_quota_ignore_does_not_ask() -> None:
    backend, told = ScriptedBackend(RUNNING, quotas=[room(ever=False)]), Recorder()
    await launch(backend, make_task(flavors=("a", "b")), context(), quota="ignore", reporter=told)
    assert backend.calls == ["find_each", "submit 1"]


@pytest.mark.parametrize("quota", ["require", "warn"])
async def test_a_quota_that_can_not_be_read_stops_nothing(quota: QuotaPolicy) -> None:
    backend, told = ScriptedBackend(RUNNING, quotas=[BackendError("the quota API is broken.")]), Recorder()
    await launch(backend, make_task(), context(), quota=quota, reporter=told)
    assert len(backend.submitted) == 1
    assert told.warnings == ["quota is not known: the quota API is broken."]


async def test_the_first_instance_with_room_is_taken() -> None:
    backend, told = (
        ScriptedBackend(RUNNING, quotas=[room(now_=False), room(ever=False, now_=False), room()]),
        Recorder(),
    )
    launched = await launch(backend, make_task(flavors=("a", "b", "c", "d")), context(), quota="require", reporter=told)
    assert backend.calls[1:-1] == ["quota a", "quota b", "quota c"]
    assert launched.flavor == 2
    assert [flavor.instance for flavor in backend.submitted[0].task.flavors] == ["c", "a", "b", "d"]
    assert told.notes[-1].endswith("to scripted on c")


async def test_else_the_first_instance_that_ever_has_room_is_taken() -> None:
    backend, told = ScriptedBackend(RUNNING, quotas=[room(ever=False, now_=False), room(now_=False)]), Recorder()
    launched = await launch(backend, make_task(flavors=("a", "b")), context(), quota="require", reporter=told)
    assert launched.flavor == 1


async def test_only_when_no_instance_ever_fits_the_task_is_refused_with_each_proof() -> None:
    backend, told = ScriptedBackend(quotas=[room(ever=False, now_=False)] * 2), Recorder()
    with pytest.raises(NeverAdmissibleError) as caught:
        await launch(backend, make_task(flavors=("a", "b")), context(), quota="require", reporter=told)
    assert "a: no queue has that" in str(caught.value)
    assert "b: no queue has that" in str(caught.value)


async def test_a_submission_without_an_answer_is_tried_again_with_one_warning() -> None:
    backend, told = ScriptedBackend(RUNNING), Recorder()
    backend.submit_faults = [BackendUnavailable("503")] * 4
    launched = await launch(backend, make_task(), context(), quota="ignore", reporter=told)
    assert len(backend.submitted) == 1
    assert told.warnings == [f"submitting {launched.ref.name}: no answer, trying again (503)"]


async def test_a_backend_that_stays_away_ends_the_launch_with_its_own_error() -> None:
    backend = ScriptedBackend(RUNNING)
    backend.submit_faults = [BackendUnavailable("503")] * 99
    with pytest.raises(BackendUnavailable):
        await launch(backend, make_task(), context(), quota="ignore", reporter=Recorder())


async def test_an_adopted_run_whose_name_would_be_another_now_stays_the_only_one() -> None:
    backend = ScriptedBackend(RUNNING)
    await backend.submit(backend.render(make_task(name_prefix="at-noon"), context()))
    launched = await launch(backend, make_task(name_prefix="at-one"), context(), quota="ignore", reporter=Recorder())
    assert launched.adopted
    assert len(backend.submitted) == 1


async def test_a_refusal_is_not_tried_again() -> None:
    backend = ScriptedBackend(RUNNING)
    backend.submit_faults = [NameTaken("taken")]
    with pytest.raises(NameTaken):
        await launch(backend, make_task(), context(), quota="ignore", reporter=Recorder())
    assert backend.calls.count("submit 1") == 1


async def test_a_missing_right_fails_the_first_submission_at_once_and_is_waited_for_between_two_attempts() -> None:
    backend, told = ScriptedBackend(RUNNING), Recorder()
    backend.submit_faults = [AccessDenied("cannot create pytorchjobs.")] * 4
    with pytest.raises(AccessDenied):
        await submit_to(backend, make_task(), context(), 0, reporter=told)
    assert (backend.calls, told.warnings) == (["submit 1"], [])
    launched = await submit_to(backend, make_task(), context(attempt=2), 0, reporter=told)
    assert launched.ref.attempt == 2
    assert told.warnings == [f"submitting {launched.ref.name}: refused, trying again (cannot create pytorchjobs.)"]
