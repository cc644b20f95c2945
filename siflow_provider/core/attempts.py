"""The steps between attempts, callable one by one.

The sync operator and the CLI loop over them, the deferrable operator takes one a leg; both therefore do the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.launch import Launched, launch, submit_best, submit_to
from siflow_provider.core.moves import Moves
from siflow_provider.core.no_room import NoRoom
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind, Totals
from siflow_provider.core.patience import UNTIL_ALLOWED, patiently
from siflow_provider.core.placement import ask_others
from siflow_provider.core.recovery import attempts_allowed, backoff_seconds, retries_used
from siflow_provider.core.status import JobRef, LogCursor, Phase, Status
from siflow_provider.core.trail import Trail

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.launch import QuotaPolicy
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import RenderContext, TrainingBackend
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["Ledger", "Step", "first_attempt", "next_attempt", "rest"]


class Ledger(Frozen):
    """What earlier attempts of a run leave behind; whoever holds the task keeps it between steps. JSON, no secret.

    Attributes:
        totals: what ended attempts took: the `before` of `Outcome.summary`.
        moves: how many of them ended by a move to another instance.
        queued_before: seconds in the queue before those moves.
        stayed: seconds in the queue at which no other instance had room, so that the task stayed.
        told_until: events up to this moment have been noted.
        flavor: index of the instance that the current attempt uses.
        generation: which of the runs with the same ids this is.
        moving: index of the instance to which a move waits to be submitted, its old place given up; else None.
    """

    totals: Totals = Totals()
    moves: int = 0
    queued_before: float = 0.0
    stayed: float = 0.0
    told_until: datetime | None = None
    flavor: int = 0
    generation: int = 0
    moving: int | None = None

    def applied(self, policy: FollowPolicy) -> FollowPolicy:
        """Return the run's policy as it holds for the current attempt."""
        fallback = None if policy.fallback_after is None else policy.fallback_after + self.stayed
        return policy.model_copy(
            update={
                "moves": self.moves,
                "queued_before": self.queued_before,
                "told_until": self.told_until,
                "fallback_after": fallback,
            }
        )


@dataclass(frozen=True, slots=True)
class Step:
    """An attempt that exists and waits to be followed.

    Attributes:
        ref: the attempt.
        policy: what to follow it with.
        cursor: where to read its logs on.
        ledger: to be kept for the next step.
        adopted: True when an earlier process of the same try had submitted it.
    """

    ref: JobRef
    policy: FollowPolicy
    cursor: LogCursor = LogCursor()  # noqa: RUF009 - frozen
    ledger: Ledger = Ledger()  # noqa: RUF009 - frozen
    adopted: bool = False


async def first_attempt(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    policy: FollowPolicy,
    reporter: Reporter,
    *,
    quota: QuotaPolicy,
) -> Step:
    """Launch the run, or adopt its newest attempt together with what earlier ones took.

    Raises:
        UnsupportedError, NeverAdmissibleError, NameTaken, NoRoom: as `launch`.
    """
    launched = await launch(backend, task, context, quota=quota, reporter=reporter)
    ledger = Ledger(flavor=launched.flavor, generation=launched.generation)
    if launched.adopted:
        identity = context.identity.of_generation(launched.generation)
        adopted = await _adopted_ledger(backend, task, identity, launched.ref, reporter)
        ledger = adopted.model_copy(update={"generation": launched.generation, "flavor": launched.flavor})
    return Step(launched.ref, ledger.applied(policy), ledger=ledger, adopted=launched.adopted)


async def next_attempt(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    policy: FollowPolicy,
    reporter: Reporter,
    *,
    outcome: Outcome,
    ledger: Ledger,
    quota: QuotaPolicy = "require",
    rested: bool = False,
) -> Step:
    """Do what an outcome `retry` or `move` asks for, and return the attempt to follow next.

    Args:
        backend: opened by the caller.
        task: the resolved task.
        context: whose run it is; its attempt number does not matter.
        policy: the run's policy as `follow_policy` made it, the ledger not applied.
        reporter: who is told.
        outcome: what `follow` returned for the last attempt.
        ledger: as the last step returned it.
        quota: as at launch; a retry is never refused for it.
        rested: True when `rest` was awaited already, where waiting costs less than here.

    Raises:
        ValueError: the outcome asks for no further attempt.
        NameTaken: an object of the next name belongs to somebody else.
        NoRoom: there is no room for it now.
    """
    held = _Held(backend, task, context, policy, reporter)
    match outcome.kind:
        case OutcomeKind.RETRY:
            if not rested:
                await rest(ledger.applied(policy), reporter, outcome)
            return await _retry(held, outcome, ledger, quota)
        case OutcomeKind.MOVE:
            return await _move(held, outcome, ledger)
        case _:
            raise ValueError(f"an outcome {outcome.kind!s} asks for no further attempt")


async def rest(policy: FollowPolicy, reporter: Reporter, outcome: Outcome) -> None:
    """Say which attempt follows an outcome `retry`, when and why, and wait until then.

    Args:
        policy: the run's policy with the ledger applied.
        reporter: who is told.
        outcome: what `follow` returned.
    """
    attempt = outcome.ref.attempt + 1
    delay = backoff_seconds(retries_used(policy, attempt))
    why = "" if outcome.failure is None else f": {outcome.failure.category}: {outcome.failure.summary}"
    reporter.note(f"attempt {attempt} of {attempts_allowed(policy)} in {delay:g} s{why}")
    await asyncio.sleep(delay)


@dataclass(frozen=True, slots=True)
class _Held:
    """What the holder of a task has in hand."""

    backend: TrainingBackend
    task: ResolvedTask
    context: RenderContext
    policy: FollowPolicy
    reporter: Reporter

    def for_attempt(self, attempt: int, ledger: Ledger) -> RenderContext:
        moves = Moves(count=ledger.moves, queued_seconds=ledger.queued_before)
        identity = self.context.identity.of_generation(ledger.generation).for_attempt(attempt)
        return replace(self.context, identity=identity, moves=moves)


async def _retry(held: _Held, outcome: Outcome, ledger: Ledger, quota: QuotaPolicy) -> Step:
    after = Ledger(totals=ledger.totals.plus(outcome.totals), moves=ledger.moves, generation=ledger.generation)
    launched = await submit_best(
        held.backend,
        held.task,
        held.for_attempt(outcome.ref.attempt + 1, after),
        # what could be admitted once is not refused now: a retry goes through the same queue as any other run
        quota="ignore" if quota == "ignore" else "warn",
        reporter=held.reporter,
    )
    return _step(held, launched, after)


async def _move(held: _Held, outcome: Outcome, ledger: Ledger) -> Step:
    """Submit to an instance with room, or stay; where the old place is given up already, only submit."""
    if ledger.moving is None:
        moved = await _given_up(held, outcome, ledger)
        if moved is None:
            stays = ledger.model_copy(update={"stayed": outcome.totals.queued_seconds, "told_until": datetime.now(UTC)})
            return Step(outcome.ref, stays.applied(held.policy), outcome.cursor, stays)
        ledger = moved
    context = held.for_attempt(outcome.ref.attempt + 1, ledger)
    try:
        launched = await submit_to(held.backend, held.task, context, ledger.moving or 0, reporter=held.reporter)
    except NoRoom as none:
        none.ledger = ledger
        raise
    return _step(held, launched, ledger.model_copy(update={"moving": None}))


async def _given_up(held: _Held, outcome: Outcome, ledger: Ledger) -> Ledger | None:
    """Give the old place up for an instance with room, and return what goes there; None where there is none."""
    ref, reporter, flavors = outcome.ref, held.reporter, held.task.flavors
    flavor = await ask_others(held.backend, held.task, ledger.flavor)
    if flavor is None or not await _still_queued(held.backend, ref, reporter):
        return None
    old, new = flavors[ledger.flavor].instance, flavors[flavor].instance
    reporter.note(f"moving from {old} to {new}, which has room now; the place in the old queue is given up")
    # gone, not only stopped: a follower that starts anew must not take the old place for a run that somebody stopped
    await patiently(
        lambda: held.backend.delete(ref), what=f"giving up {ref.name}", reporter=reporter, ride=UNTIL_ALLOWED
    )
    return Ledger(
        totals=ledger.totals.plus(outcome.totals),
        moves=ledger.moves + 1,
        queued_before=ledger.queued_before + outcome.totals.queued_seconds,
        generation=ledger.generation,
        moving=flavor,
    )


async def _still_queued(backend: TrainingBackend, ref: JobRef, reporter: Reporter) -> bool:
    status = await patiently(
        lambda: backend.status(ref), what=f"asking for {ref.name}", reporter=reporter, ride=UNTIL_ALLOWED
    )
    return status.phase is Phase.QUEUED


def _step(held: _Held, launched: Launched, ledger: Ledger) -> Step:
    ledger = ledger.model_copy(update={"flavor": launched.flavor})
    return Step(launched.ref, ledger.applied(held.policy), ledger=ledger)


async def _adopted_ledger(
    backend: TrainingBackend, task: ResolvedTask, identity: Identity, ref: JobRef, reporter: Reporter
) -> Ledger:
    """Return what the earlier attempts of a run left behind, read back from what there is of them."""
    totals = await _earlier_totals(backend, task, identity.for_attempt(ref.attempt), reporter)
    if len(task.flavors) == 1:
        return Ledger(totals=totals)  # nothing to move to
    status = await patiently(lambda: backend.status(ref), what=f"asking for {ref.name}", reporter=reporter)
    return Ledger(
        totals=totals.plus(Totals(queued_seconds=status.moves.queued_seconds)),
        moves=status.moves.count,
        queued_before=status.moves.queued_seconds,
    )


async def _earlier_totals(
    backend: TrainingBackend, task: ResolvedTask, identity: Identity, reporter: Reporter
) -> Totals:
    totals, now, trail = Totals(), datetime.now(UTC), Trail.of(task, identity)
    for number in range(1, identity.attempt):
        earlier = await patiently(
            lambda number=number: _status_of(backend, identity.for_attempt(number), trail),  # type: ignore[misc]
            what=f"asking for attempt {number}",
            reporter=reporter,
        )
        if earlier is not None:
            moved = Totals(queued_seconds=earlier.moves.queued_seconds)
            totals = totals.plus(Totals.of(earlier, now)).plus(moved)
    return totals


async def _status_of(backend: TrainingBackend, identity: Identity, trail: Trail) -> Status | None:
    ref = await backend.find(identity, trail=trail)
    return None if ref is None else await backend.status(ref)
