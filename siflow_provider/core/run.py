"""A whole run in one process: launch, follow, and the next attempt for as long as an outcome asks for one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siflow_provider.core.attempts import Ledger, first_attempt, next_attempt, rest
from siflow_provider.core.expiry import finish_run
from siflow_provider.core.follow import follow, utc_now
from siflow_provider.core.no_room import RoomWait
from siflow_provider.core.outcome import Outcome, OutcomeKind, RunEnd
from siflow_provider.core.status import Failure, FailureClass, Phase

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from siflow_provider.core.attempts import Step
    from siflow_provider.core.launch import QuotaPolicy
    from siflow_provider.core.outcome import FollowPolicy, Reporter
    from siflow_provider.core.protocol import RenderContext, TrainingBackend
    from siflow_provider.core.status import JobRef
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["run"]


async def run(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    policy: FollowPolicy,
    reporter: Reporter,
    *,
    quota: QuotaPolicy = "require",
    on_ref: Callable[[JobRef], None] | None = None,
    stop_asked: asyncio.Future[str] | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> RunEnd:
    """Run a task to its end.

    Args:
        backend: opened by the caller.
        task: the resolved task.
        context: whose run it is; attempt 1.
        policy: as `follow_policy` makes it.
        reporter: who is told.
        quota: what a proof that the task can never be admitted does.
        on_ref: called with each new attempt before it is followed, to publish where it is.
        stop_asked: done, with who asked, when the run shall end; whoever sets it also stops the attempt of `on_ref`.
        clock: gives the moment now.

    Raises:
        UnsupportedError, NeverAdmissibleError, NameTaken, BackendError: as `launch` and `follow`.
    """
    make = _Submitting(backend, task, context, policy, reporter, quota).make
    room = RoomWait(backend, policy, reporter, stop_asked=stop_asked, clock=clock)
    step, published = await room.until(make, None, Ledger()), None
    while not isinstance(step, RunEnd):
        published = _publish(step.ref, published, on_ref)
        outcome = await follow(backend, step.ref, step.policy, reporter, cursor=step.cursor, clock=clock)
        if outcome.kind is OutcomeKind.RETRY and (by := await _rested(step, policy, reporter, outcome, stop_asked)):
            outcome = _stopped_between(outcome, by)
        if outcome.final:
            return await _finished(backend, step, outcome, reporter)
        step = await room.until(make, outcome, step.ledger)
    return step


@dataclass(frozen=True, slots=True)
class _Submitting:
    """What submits the first attempt, or the one that an outcome asks for."""

    backend: TrainingBackend
    task: ResolvedTask
    context: RenderContext
    policy: FollowPolicy
    reporter: Reporter
    quota: QuotaPolicy

    async def make(self, outcome: Outcome | None, ledger: Ledger) -> Step:
        whole = (self.backend, self.task, self.context, self.policy, self.reporter)
        if outcome is None:
            return await first_attempt(*whole, quota=self.quota)
        return await next_attempt(*whole, outcome=outcome, ledger=ledger, quota=self.quota, rested=True)


async def _finished(backend: TrainingBackend, step: Step, outcome: Outcome, reporter: Reporter) -> RunEnd:
    await finish_run(backend, step.ref, reporter)
    return RunEnd(outcome, step.ledger.totals)


def _publish(ref: JobRef, published: JobRef | None, on_ref: Callable[[JobRef], None] | None) -> JobRef:
    if on_ref is not None and ref != published:
        on_ref(ref)
    return ref


async def _rested(
    step: Step, policy: FollowPolicy, reporter: Reporter, outcome: Outcome, stop_asked: asyncio.Future[str] | None
) -> str | None:
    """Wait out the back-off and return None, or who asked for a stop as soon as somebody does."""
    rested = asyncio.ensure_future(rest(step.ledger.applied(policy), reporter, outcome))
    awaited: set[asyncio.Future[Any]] = {rested} if stop_asked is None else {rested, stop_asked}
    try:
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if stop_asked is not None and stop_asked.done():
            return stop_asked.result()
        await rested
        return None
    finally:
        rested.cancel()


def _stopped_between(outcome: Outcome, by: str) -> Outcome:
    """Return the end of a run that was stopped after a failed attempt and before the next one."""
    before = f"attempt {outcome.ref.attempt} had failed"
    why = "" if outcome.failure is None else f": {outcome.failure.category}: {outcome.failure.summary}"
    summary = f"the run was stopped by {by} before another attempt; {before}{why}"
    failure = Failure(category=FailureClass.STOPPED_BY_USER, summary=summary)
    return outcome.model_copy(update={"kind": OutcomeKind.STOPPED, "phase": Phase.STOPPED, "failure": failure})
