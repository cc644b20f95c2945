"""The asynchronous part of a worker leg: what happens between validating a task and deferring, or its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siflow_provider.backends import make_backend
from siflow_provider.core.alarms import Alarms
from siflow_provider.core.attempts import first_attempt, next_attempt
from siflow_provider.core.earlier import end_older, find_all
from siflow_provider.core.expiry import finish_run
from siflow_provider.core.follow import follow
from siflow_provider.core.no_room import NoRoom, Waiting, counted, wait_on
from siflow_provider.core.outcome import RunEnd
from siflow_provider.core.patience import patiently
from siflow_provider.core.run import run
from siflow_provider.core.status import Status
from siflow_provider.core.trail import Trail
from siflow_provider.errors import AccessDenied, BackendUnavailable
from siflow_provider.triggers.shown import read_shown, trigger_logs

if TYPE_CHECKING:
    from siflow_provider.core.attempts import Ledger, Step
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.outcome import Outcome
    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.core.status import JobRef
    from siflow_provider.operators.order import Order
    from siflow_provider.triggers.shown import Shown

__all__ = ["advance", "launch_and_look", "run_to_end", "tell_end"]


async def run_to_end(order: Order) -> RunEnd:
    """Run the task in this process to its end."""
    async with make_backend(order.settings) as backend:
        await _end_older_tries(backend, order)
        publishing: list[asyncio.Task[None]] = []

        def on_ref(ref: JobRef) -> None:
            order.known.append(ref)
            publishing.append(asyncio.create_task(_publish(order, ref)))

        try:
            return await run(
                backend,
                order.task,
                order.context,
                order.policy,
                order.reporter,
                quota=order.quota,
                on_ref=on_ref,
            )
        finally:
            await asyncio.gather(*publishing)


async def launch_and_look(order: Order) -> Step | RunEnd | Waiting:
    """Submit or adopt the run, publish where it is, and look once: a run that is over needs no triggerer."""
    async with make_backend(order.settings) as backend:
        await _end_older_tries(backend, order)
        try:
            step = await first_attempt(
                backend, order.task, order.context, order.policy, order.reporter, quota=order.quota
            )
        except NoRoom as none:
            return await _wait_on(backend, order, none)
        return await _look(backend, order, _counted(step, order))


async def advance(order: Order, outcome: Outcome) -> Step | RunEnd | Waiting:
    """Do what the outcome `retry` or `move` asks for, and look once at what comes of it.

    The pause before a new attempt was made in the trigger, where it holds no worker.
    """
    async with make_backend(order.settings) as backend:
        try:
            step = await next_attempt(
                backend, order.task, order.context, order.policy, order.reporter,
                outcome=outcome, ledger=order.carried.ledger, quota=order.quota, rested=True,
            )  # fmt: skip
        except NoRoom as none:
            return await _wait_on(backend, order, none, outcome)
        return await _look(backend, order, _counted(step, order))


async def tell_end(order: Order, outcome: Outcome) -> None:
    """Tell those who want to know of the end of a run that nobody followed."""
    alarms = Alarms(order.policy.alerts, order.reporter)
    alarms.fire_end(outcome.kind, Status(outcome.ref, outcome.phase, failure=outcome.failure))
    await alarms.close()


async def _next(backend: TrainingBackend, order: Order, outcome: Outcome, ledger: Ledger) -> Step | RunEnd | Waiting:
    try:
        step = await next_attempt(
            backend, order.task, order.context, order.policy, order.reporter,
            outcome=outcome, ledger=ledger, quota=order.quota,
        )  # fmt: skip
    except NoRoom as none:
        return await wait_on(backend, order.policy, order.reporter, none, ledger=ledger, outcome=outcome, since=None)
    return await _look(backend, order, step)


async def _wait_on(
    backend: TrainingBackend, order: Order, none: NoRoom, outcome: Outcome | None = None
) -> Waiting | RunEnd:
    return await wait_on(
        backend, order.policy, order.reporter, none,
        ledger=order.carried.ledger, outcome=outcome, since=order.carried.waiting_since,
    )  # fmt: skip


def _counted(step: Step, order: Order) -> Step:
    return counted(step, order.policy, order.carried.waiting_since)


async def _look(backend: TrainingBackend, order: Order, step: Step) -> Step | RunEnd | Waiting:
    order.known.append(step.ref)
    await _publish(order, step.ref)  # whatever the look says: who asks for the run must find it
    try:
        status = await patiently(
            lambda: backend.status(step.ref), what=f"looking at {step.ref.name}", reporter=order.reporter
        )
    except (AccessDenied, BackendUnavailable) as error:  # it is there: its follower waits for right and answer
        order.reporter.note(f"{step.ref.name} can't be looked at now: {error}", warning=True)
        return step
    await order.reporter.links(status.links)
    if not status.phase.terminal:
        return step
    if step.adopted:  # Airflow ran the try from its start again: its triggers may have shown lines of the run
        order.reporter.leave_out(await asyncio.to_thread(_shown_by_triggers, order, step.ref.name))
    outcome = await follow(backend, step.ref, step.policy, order.reporter, cursor=step.cursor)
    if not outcome.final:
        return await _next(backend, order, outcome, step.ledger)
    await finish_run(backend, step.ref, order.reporter)
    return RunEnd(outcome, step.ledger.totals)


def _shown_by_triggers(order: Order, run: str) -> Shown:
    return read_shown(run, trigger_logs(order.store.instance))


async def _publish(order: Order, ref: JobRef) -> None:
    job = {"name": ref.name, "uid": ref.uid, "backend": ref.backend, "namespace": ref.namespace, "attempt": ref.attempt}
    await order.store.put_all({"siflow_job": job})


async def _end_older_tries(backend: TrainingBackend, order: Order) -> None:
    """See to it that no run of an older try of this task instance is alive: one task, one run.

    A clear reaches the triggerer after the new try may have started, and a kill before the triggerer had taken the
    task reaches nobody; this closes both.
    """
    identity = order.context.identity
    older = [identity.model_copy(update={"try_number": number}) for number in range(1, identity.try_number)]
    for ref in await patiently(
        lambda: _still_running(backend, older, Trail.of(order.task, identity, every_kind=True)),
        what="looking for runs of earlier tries",
        reporter=order.reporter,
    ):
        await end_older(backend, ref, order.reporter, whose="try", detached=order.on_kill_action == "detach")


async def _still_running(backend: TrainingBackend, identities: list[Identity], trail: Trail) -> list[JobRef]:
    """Return the runs that live, and those of which the last is still there after a deletion."""
    found = await asyncio.gather(*(find_all(backend, each, trail=trail) for each in identities))
    there = [one for runs in found for one in runs.values()]
    return [one.ref for one in there if one.leaving or not (await backend.status(one.ref)).phase.terminal]
