"""Attempts of one run, with real runs: what is retried, and what a crash between attempts does."""

from __future__ import annotations

import pytest

from siflow_provider.core.attempts import first_attempt, next_attempt
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.run import run
from tests.contract.life import (
    Told,
    context,
    end,
    mine,
    read,
    run_to_end,
    start,
    texts,
)
from tests.contract.world import World

TWICE = 'echo "attempt $SIFLOW_ATTEMPT"; [ "$SIFLOW_ATTEMPT" = 2 ] || kill -SEGV $$'


async def test_a_retry_is_a_second_attempt_with_logs_of_its_own(world: World, backend: TrainingBackend) -> None:
    told = Told()
    ended, refs = await run_to_end(backend, world.task(TWICE, fault_tolerance={"max_retries": 3}), told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert [ref.attempt for ref in refs] == [1, 2]
    assert refs[0].task_uuid == refs[1].task_uuid
    assert [note for note in told.notes if note.startswith("attempt 2 of 4")]
    assert texts(told.lines, "master-0") == ["attempt 1", "attempt 2"]
    for ref in refs:
        assert texts(await read(backend, ref), "master-0") == [f"attempt {ref.attempt}"]
    first = await backend.status(refs[0])
    assert first.failure is not None  # each attempt's reason stays visible
    assert ended.totals.running_seconds > 0
    assert ended.summary()["attempts"] == 2


async def test_wrong_code_is_not_retried(world: World, backend: TrainingBackend) -> None:
    task = world.task("echo once; exit 1", fault_tolerance={"max_retries": 3})
    ended, refs = await run_to_end(backend, task, told := Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert len(refs) == 1
    assert texts(told.lines, "master-0") == ["once"]


async def test_retries_end(world: World, backend: TrainingBackend) -> None:
    task = world.task("exit 1", fault_tolerance={"max_retries": 1, "retry_on": ["code"]})
    ended, refs = await run_to_end(backend, task, Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert [ref.attempt for ref in refs] == [1, 2]


async def test_a_crash_between_two_attempts_goes_on_with_the_newest(world: World, backend: TrainingBackend) -> None:
    identity, told = mine(), Told()
    task = world.task(TWICE, fault_tolerance={"max_retries": 1})
    policy = follow_policy(task)
    step = await first_attempt(backend, task, context(identity), policy, told, quota="require")
    outcome = await follow(backend, step.ref, step.policy, told)
    assert outcome.kind is OutcomeKind.RETRY
    second = await next_attempt(backend, task, context(identity), policy, told, outcome=outcome, ledger=step.ledger)
    # here the process dies; another one starts the same try from its beginning
    async with world.backend() as later:
        again = await first_attempt(later, task, context(identity), policy, told, quota="require")
        assert again.adopted
        assert again.ref == second.ref
        assert again.ledger.totals.running_seconds == pytest.approx(second.ledger.totals.running_seconds, abs=0.05)
        assert (await follow(later, again.ref, again.policy, told)).kind is OutcomeKind.SUCCEEDED
    assert len(await backend.runs()) == 2


async def test_a_crash_before_the_second_attempt_makes_it_now(world: World, backend: TrainingBackend) -> None:
    identity = mine()
    task = world.task(TWICE, fault_tolerance={"max_retries": 1})
    ref = await start(backend, task, identity)
    await end(backend, ref)
    async with world.backend() as later:
        ended = await run(later, task, context(identity), follow_policy(task), Told(), quota="require")
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.ref.attempt == 2
    assert len(await backend.runs()) == 2
