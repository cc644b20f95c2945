from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from siflow_provider.core import earlier
from siflow_provider.core.launch import launch
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.protocol import Manifest, TrainingBackend
from siflow_provider.core.status import JobRef, Phase
from siflow_provider.errors import BackendUnavailable, NameTaken
from tests.contract.life import Told, context, end, mine, read, start, texts, until_phase
from tests.contract.world import World

SLEEP = "sleep 600"


async def test_submit_twice_is_one_run(world: World, backend: TrainingBackend) -> None:
    manifest = backend.render(world.task(SLEEP), context(mine()))
    first = await backend.submit(manifest)
    second = await backend.submit(manifest)
    assert first == second
    assert [status.ref for status in await backend.runs()] == [first]


async def test_submits_at_once_from_several_processes_are_one_run(world: World, backend: TrainingBackend) -> None:
    manifest = backend.render(world.task(SLEEP), context(mine()))
    async with world.backend() as other:
        refs = await asyncio.gather(*(each.submit(manifest) for each in [backend, other] * 4))
    assert len(set(map(str, refs))) == 1
    assert [status.ref for status in await backend.runs()] == [refs[0]]


async def test_submit_of_an_ended_run_starts_nothing_new(world: World, backend: TrainingBackend) -> None:
    manifest = backend.render(world.task("echo once"), context(mine()))
    ref = await backend.submit(manifest)
    await end(backend, ref)
    assert await backend.submit(manifest) == ref
    assert texts(await read(backend, ref), "master-0") == ["once"]


async def test_a_run_is_found_after_a_restart(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    ref = await start(backend, world.task(SLEEP), identity)
    async with world.backend() as later:
        assert await later.find(identity) == ref
        assert await later.find_latest(identity) == ref
        assert (await later.status(ref)).phase in {Phase.QUEUED, Phase.STARTING, Phase.RUNNING}


async def test_nothing_is_found_for_another_try_attempt_or_task(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    await start(backend, world.task(SLEEP), identity)
    others = [
        identity.model_copy(update={"try_number": 2}),
        identity.model_copy(update={"map_index": 0}),
        identity.model_copy(update={"task_id": "Train"}),
    ]
    for other in others:
        assert await backend.find(other) is None
        assert await backend.find_latest(other) is None
    assert await backend.find(identity.for_attempt(2)) is None


async def test_the_newest_attempt_is_found_whatever_attempt_is_asked_for(
    world: World, backend: TrainingBackend
) -> None:
    identity = mine()
    first = await start(backend, world.task("true"), identity)
    await end(backend, first)
    second = await start(backend, world.task("true"), identity.for_attempt(2))
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.task_uuid == second.task_uuid
    assert first.name != second.name
    assert await backend.find_latest(identity) == second
    assert await backend.find(identity) == first


async def test_a_run_is_found_by_its_exact_name_and_no_other_is(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    first = await start(backend, world.task("true"), identity)
    await end(backend, first)
    second = await start(backend, world.task(SLEEP), identity.for_attempt(2))
    await start(backend, world.task(SLEEP))
    async with world.backend() as other:
        for ref, phases in ((first, {Phase.SUCCEEDED}), (second, {Phase.QUEUED, Phase.STARTING, Phase.RUNNING})):
            (found,) = await other.find_named(ref.name)
            assert found.ref == ref
            assert found.phase in phases
            assert found.origin == Origin.of_identity(identity, detached=False)
            assert await other.find_latest(found.ref) == second


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../runs", "a/b", "*", "Train", "a" * 300, "a\0b", "señal", "a b", "-a"]
)
async def test_a_text_that_is_no_name_finds_nothing(world: World, backend: TrainingBackend, name: str) -> None:
    await start(backend, world.task(SLEEP))
    assert await backend.find_named(name) == []


async def test_a_part_of_a_name_and_a_deleted_run_are_not_found(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task(SLEEP))
    for name in (ref.name[:-1], f"{ref.name}-2", ref.uid):
        assert await backend.find_named(name) == []
    await backend.delete(ref)
    assert await backend.find_named(ref.name) == []
    assert await backend.find_latest(ref) is None


async def test_an_attempt_tells_of_the_moves_before_it(world: World, backend: TrainingBackend) -> None:
    identity, moves = mine(), Moves(count=2, queued_seconds=90.5)
    first = await start(backend, world.task(SLEEP), identity)
    whose = replace(context(identity.for_attempt(2)), moves=moves)
    second = await backend.submit(backend.render(world.task(SLEEP), whose))
    async with world.backend() as later:
        assert (await later.status(first)).moves == Moves()
        assert (await later.status(second)).moves == moves


async def test_two_tries_are_two_runs(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    refs = [await start(backend, world.task(SLEEP), identity.model_copy(update={"try_number": n})) for n in (1, 2)]
    assert refs[0].uid != refs[1].uid
    assert refs[0].name != refs[1].name


async def test_a_name_of_somebody_else_is_refused(world: World, backend: TrainingBackend) -> None:
    taken = await start(backend, world.task(SLEEP), mine())
    manifest = replace(backend.render(world.task(SLEEP), context(mine())), name=taken.name)
    with pytest.raises(NameTaken, match=taken.name):
        await backend.submit(manifest)
    assert [status.ref for status in await backend.runs()] == [taken]


async def test_what_is_shown_is_what_is_sent(world: World, backend: TrainingBackend) -> None:
    task, whose = world.task(SLEEP, env={"A": "1"}), context(mine())
    manifest = backend.render(task, whose)
    assert manifest == backend.render(task, whose)
    assert manifest.name == (await backend.submit(manifest)).name
    async with world.backend() as other:
        assert repr(other.render(task, whose).documents) == repr(manifest.documents)


async def test_a_run_outlives_the_process_that_started_it(world: World) -> None:
    async with world.backend() as first:
        ref = await start(first, world.task("sleep 1; echo done"))
        await until_phase(first, ref, Phase.RUNNING)
    async with world.backend() as second:
        assert (await end(second, ref)).phase is Phase.SUCCEEDED
        assert texts(await read(second, ref), "master-0") == ["done"]


async def test_a_launch_after_a_crash_adopts_the_run_and_says_so(world: World, backend: TrainingBackend) -> None:
    identity, told = mine(), Told()
    ref = await start(backend, world.task(SLEEP, size="whole"), identity)
    await until_phase(backend, ref, Phase.RUNNING)
    # the whole machine is taken by this very run: asking for quota before looking for it would be wrong
    launched = await launch(
        backend, world.task(SLEEP, size="impossible"), context(identity), quota="require", reporter=told
    )
    assert (launched.ref, launched.adopted) == (ref, True)
    assert [note for note in told.notes if "adopted" in note]


async def test_a_run_that_an_earlier_dag_run_of_the_same_ids_left_is_neither_adopted_nor_touched(
    world: World, backend: TrainingBackend
) -> None:
    identity, task, told = mine(installation="blue"), world.task("true"), Told()
    first = await launch(backend, task, context(identity, instance="ti-1"), quota="ignore", reporter=told)
    assert (await end(backend, first.ref)).phase is Phase.SUCCEEDED
    again = await launch(backend, task, context(identity, instance="ti-1"), quota="ignore", reporter=told)
    assert (again.ref, again.adopted) == (first.ref, True)
    second = await launch(backend, world.task(SLEEP), context(identity, instance="ti-2"), quota="ignore", reporter=told)
    assert not second.adopted
    assert (second.ref.name, second.ref.attempt) != (first.ref.name, first.ref.attempt)
    async with world.backend() as later:  # a crash of this very instance's worker: its own run is found
        found = await launch(
            later, world.task(SLEEP), context(identity, instance="ti-2"), quota="ignore", reporter=told
        )
        third = await launch(later, task, context(identity, instance="ti-3"), quota="ignore", reporter=told)
    assert (found.ref, found.adopted) == (second.ref, True)
    assert len({launched.ref.name for launched in (first, second, third)}) == 3
    assert (await backend.status(first.ref)).phase is Phase.SUCCEEDED
    assert (await backend.status(second.ref)).phase is Phase.STOPPED
    assert [text for text in told.warnings if f"{second.ref.name} of an earlier DAG run" in text]


async def test_a_live_run_that_may_be_another_airflows_is_named_and_goes_on(
    world: World, backend: TrainingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "_LET_GO_SECONDS", 1.0)
    identity, task = mine(), world.task(SLEEP)
    theirs = await launch(backend, task, context(identity, instance="theirs"), quota="ignore", reporter=Told())
    async with world.backend() as other:
        with pytest.raises(NameTaken, match=theirs.ref.name):
            await launch(other, task, context(identity, instance="ours"), quota="ignore", reporter=Told())
        assert await earlier.find_mine(other, context(identity, instance="ours")) is None
    assert [status.ref for status in await backend.runs()] == [theirs.ref]
    assert not (await backend.status(theirs.ref)).phase.terminal


async def test_two_airflows_that_say_which_one_they_are_have_two_runs_of_the_same_ids(
    world: World, backend: TrainingBackend
) -> None:
    identity, task, told = mine(installation="blue"), world.task(SLEEP), Told()
    green = identity.model_copy(update={"installation": "green"})
    blues = await launch(backend, task, context(identity, instance="b"), quota="ignore", reporter=told)
    async with world.backend() as other:
        greens = await launch(other, task, context(green, instance="g"), quota="ignore", reporter=told)
    assert (blues.adopted, greens.adopted) == (False, False)
    assert blues.ref.name not in told.everything.replace(f"submitted {blues.ref.kind} {blues.ref.name}", "")
    assert {status.ref: status.origin and status.origin.installation for status in await backend.runs()} == {
        blues.ref: "blue", greens.ref: "green"
    }  # fmt: skip
    assert await backend.find_latest(identity) == blues.ref
    assert [one and one.ref for one in await backend.find_each([green, identity, mine()])] == [
        greens.ref, blues.ref, None
    ]  # fmt: skip


async def test_a_run_is_found_again_although_the_one_of_an_earlier_dag_run_was_removed(
    world: World, backend: TrainingBackend
) -> None:
    identity, told = mine(), Told()
    first = await launch(backend, world.task("true"), context(identity, instance="ti-1"), quota="ignore", reporter=told)
    await end(backend, first.ref)
    task, whose = world.task(SLEEP), context(identity, instance="ti-2")
    second = await launch(backend, task, whose, quota="ignore", reporter=told)
    await backend.delete(first.ref)
    async with world.backend() as later:
        again = await launch(later, task, whose, quota="ignore", reporter=told)
    assert (again.ref, again.adopted) == (second.ref, True)
    assert [status.ref for status in await backend.runs()] == [second.ref]


async def test_a_new_launch_is_no_adoption(world: World, backend: TrainingBackend) -> None:
    told = Told()
    launched = await launch(backend, world.task(SLEEP), context(mine()), quota="require", reporter=told)
    assert not launched.adopted
    assert [note for note in told.notes if launched.ref.name in note]


class LosesAnswers:
    """A backend whose first answers to a submission are lost on their way, the work being done."""

    def __init__(self, backend: TrainingBackend, losses: int) -> None:
        self._backend = backend
        self._losses = losses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def submit(self, manifest: Manifest) -> JobRef:
        ref = await self._backend.submit(manifest)
        if self._losses:
            self._losses -= 1
            raise BackendUnavailable("the connection was lost before the answer came.")
        return ref


async def test_a_submission_whose_answer_is_lost_is_still_one_run(world: World, backend: TrainingBackend) -> None:
    losing, told = cast("TrainingBackend", LosesAnswers(backend, 2)), Told()
    launched = await launch(losing, world.task(SLEEP), context(mine()), quota="require", reporter=told)
    assert [status.ref for status in await backend.runs()] == [launched.ref]
    assert len([warning for warning in told.warnings if "trying again" in warning]) == 1


async def test_a_process_that_died_before_the_answer_came_finds_its_run(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    with pytest.raises(BackendUnavailable):
        await LosesAnswers(backend, 1).submit(backend.render(world.task(SLEEP), context(identity)))
    async with world.backend() as later:
        launched = await launch(later, world.task(SLEEP), context(identity), quota="require", reporter=Told())
    assert launched.adopted
    assert [status.ref for status in await backend.runs()] == [launched.ref]
