"""What becomes of runs that other DAG runs with the same ids, or other Airflows, have left or still have."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from siflow_provider.core.earlier import find_all, find_mine
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import Launched, launch
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import Phase
from siflow_provider.errors import NameTaken
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, phases
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import IDENTITY, make_task

pytestmark = pytest.mark.looptime
RUNNING = Script(phases((0, Phase.RUNNING)))
ENDED = Script(phases((0, Phase.SUCCEEDED)))


def whose(instance: str, *, installation: str = "", detached: bool = False) -> RenderContext:
    identity = IDENTITY.model_copy(update={"installation": installation})
    return RenderContext(identity, instance=instance, detached=detached)


async def begin(backend: ScriptedBackend, context: RenderContext, told: Recorder | None = None) -> Launched:
    return await launch(backend, make_task(), context, quota="ignore", reporter=told or Recorder())


async def test_a_run_is_found_again_after_all_that_came_before_it_was_removed() -> None:
    backend = ScriptedBackend(ENDED, ENDED, RUNNING)
    older = [await begin(backend, whose(instance)) for instance in ("a", "b")]
    own = await begin(backend, whose("c"))
    for each in older:
        await backend.delete(each.ref)
        again = await begin(backend, whose("c"))
        assert (again.ref, again.adopted, again.generation) == (own.ref, True, 2)
    assert len(backend.submitted) == 3


async def test_a_new_run_takes_neither_name_nor_data_of_one_that_is_there_although_the_first_is_gone() -> None:
    backend = ScriptedBackend(ENDED, ENDED, RUNNING)
    first, second = await begin(backend, whose("a")), await begin(backend, whose("b"))
    await backend.delete(first.ref)
    third = await begin(backend, whose("c"))
    assert (second.generation, third.generation, third.adopted) == (1, 2, False)
    assert len({each.ref.task_uuid for each in (first, second, third)}) == 3


async def test_a_live_run_behind_a_gap_is_ended_before_a_new_one_submits() -> None:
    backend, told = ScriptedBackend(ENDED, ENDED, RUNNING, RUNNING), Recorder()
    first, second, third = [await begin(backend, whose(each, installation="blue")) for each in "abc"]
    for gone in (first, second):
        await backend.delete(gone.ref)
    await begin(backend, whose("d", installation="blue"), told)
    assert (await backend.status(third.ref)).phase is Phase.STOPPED
    assert told.warnings == [
        f"{third.ref.name} of an earlier DAG run with the same ids still runs: stopping it before this one submits"
    ]
    assert sorted(await find_all(backend, third_of(backend))) == [2, 3]


def third_of(backend: ScriptedBackend) -> Identity:
    return backend.submitted[2].context.identity


async def test_a_run_that_is_being_removed_is_waited_for_and_its_name_left_to_it() -> None:
    backend, told = ScriptedBackend(RUNNING, RUNNING), Recorder()
    old = await begin(backend, whose("a"))
    going = backend.runs_by_name[old.ref.name]
    going.leaving = True

    def go() -> None:
        going.gone = True

    asyncio.get_running_loop().call_later(20, go)
    new = await begin(backend, whose("b"), told)
    assert asyncio.get_running_loop().time() >= 20
    assert (new.adopted, new.generation) == (False, 1)
    assert "waiting until nothing of" in told.warnings[0]


async def test_a_run_that_is_being_removed_is_waited_for_however_many_came_before_it() -> None:
    backend = ScriptedBackend(*[ENDED] * 4, RUNNING, RUNNING)
    *_, last = [await begin(backend, whose(each)) for each in "abcde"]
    assert last.generation == 4
    going = backend.runs_by_name[last.ref.name]
    going.leaving = True

    def go() -> None:
        going.gone = True

    asyncio.get_running_loop().call_later(20, go)
    assert (await begin(backend, whose("f"))).generation == 5
    assert asyncio.get_running_loop().time() >= 20


async def test_an_own_run_that_is_being_removed_is_submitted_anew_under_its_name() -> None:
    backend = ScriptedBackend(ENDED, RUNNING, RUNNING)
    await begin(backend, whose("a"))
    own = await begin(backend, whose("b"))
    backend.runs_by_name[own.ref.name].leaving = True
    backend.runs_by_name[own.ref.name].gone = False
    again = await begin(backend, whose("b"))
    assert (again.adopted, again.generation, again.ref.name) == (False, 1, own.ref.name)


async def test_two_installations_with_the_same_ids_never_meet() -> None:
    backend, told = ScriptedBackend(*[RUNNING] * 3), Recorder()
    refs = [(await begin(backend, whose(place, installation=place), told)).ref for place in ("blue", "green", "")]
    assert len({(ref.name, ref.task_uuid) for ref in refs}) == 3
    assert [(await backend.status(ref)).phase for ref in refs] == [Phase.RUNNING] * 3
    assert told.warnings == []
    again = await begin(backend, whose("green", installation="green"), told)
    assert (again.ref, again.adopted) == (refs[1], True)


async def test_a_live_run_that_may_be_another_airflows_is_named_and_left_alone() -> None:
    backend, told = ScriptedBackend(RUNNING), Recorder()
    theirs = await begin(backend, whose("theirs"))
    with pytest.raises(NameTaken) as caught:
        await begin(backend, whose("ours"), told)
    assert f"{theirs.ref.name} runs and belongs to another task instance with the same ids" in str(caught.value)
    assert "daily.train scheduled__2026-01-01T00:00:00+00:00 try 1" in str(caught.value)
    assert "[siflow] installation" in caught.value.hint
    assert f"`siflow-provider stop {theirs.ref.name}`" in caught.value.hint
    assert (await backend.status(theirs.ref)).phase is Phase.RUNNING
    assert not [call for call in backend.calls if call.startswith(("stop", "delete"))]
    assert len(backend.submitted) == 1


async def test_a_live_run_whose_dag_run_was_deleted_and_that_is_being_stopped_is_waited_for() -> None:
    backend, told = ScriptedBackend(Script(phases((0, Phase.RUNNING), (30, Phase.STOPPED))), RUNNING), Recorder()
    await begin(backend, whose("a"))
    new = await begin(backend, whose("b"), told)
    assert asyncio.get_running_loop().time() >= 30
    assert (new.adopted, new.generation) == (False, 1)
    assert "waiting for its end" in told.warnings[0]


async def test_a_task_that_is_killed_before_it_submitted_stops_nobody_elses_run() -> None:
    backend = ScriptedBackend(RUNNING, RUNNING)
    await begin(backend, whose("theirs"))
    assert await find_mine(backend, whose("ours")) is None
    detached = await begin(backend, whose("ours", detached=True))
    assert await find_mine(backend, whose("ours")) == detached.ref
    assert await find_mine(backend, replace(whose("theirs"), identity=IDENTITY)) != detached.ref
