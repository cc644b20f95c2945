"""`RunTrigger`: follows one attempt of a run in the triggerer, and fires one event with its outcome."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.triggers.base import BaseTrigger, TriggerEvent
from pydantic import ValidationError

from siflow_provider.backends import make_backend
from siflow_provider.core.attempts import Ledger, rest
from siflow_provider.core.expiry import finish_run
from siflow_provider.core.follow import follow
from siflow_provider.core.frozen import Frozen
from siflow_provider.core.meter import Sizes
from siflow_provider.core.origin import STOPPED_BY
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind
from siflow_provider.core.patience import pause_seconds
from siflow_provider.core.room import News
from siflow_provider.core.status import Failure, FailureClass, JobRef, LogCursor, Phase
from siflow_provider.core.successor import successor_of
from siflow_provider.core.veil import Veil
from siflow_provider.errors import ConnectionMissing, SiflowError
from siflow_provider.hooks.siflow import DEFAULT_CONN_ID, SiflowHook
from siflow_provider.triggers.drain import LogDrain, PacedBackend
from siflow_provider.triggers.killed import KillAction, keep_running, stop_if_killed
from siflow_provider.triggers.reporter import SIZES_KEY, TaskReporter
from siflow_provider.triggers.settle import until_settled
from siflow_provider.triggers.shown import SHOWN_KEY, Shown, keep_log, marker, read_shown, trigger_logs
from siflow_provider.triggers.sight import Sight
from siflow_provider.triggers.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.core.protocol import Backend

__all__ = ["Carried", "RunEvent", "RunTrigger", "RunTriggerData"]

CLASSPATH = "siflow_provider.triggers.run.RunTrigger"
"""Stored with each deferred task: a new place needs an alias here for as long as tasks may be deferred."""

CANCEL_SECONDS = 30.0
_FRESH = timedelta(minutes=10)
"""A trigger that starts so long after its deferral may not be the first that follows the run."""
_MENDING = timedelta(seconds=30)
"""What a connection that is being written anew may be away."""


class Carried(Frozen):
    """What a try must remember from one worker leg to the next: templates render anew in each.

    Attributes:
        prefix: the job names' prefix, as the first leg rendered it.
        task_uuid: the run's own id: another one for each try.
        deadline: when the whole try must be over.
        ledger: what earlier attempts left behind.
        part: number of this deferral for the same attempt; more than 1 after a `move` that found no room.
        deferred_at: when the worker deferred.
        waiting_since: since when the next attempt waits for room to be submitted; None where it does not.
    """

    prefix: str
    task_uuid: str = ""
    deadline: datetime | None = None
    ledger: Ledger = Ledger()
    part: int = 1
    deferred_at: datetime | None = None
    waiting_since: datetime | None = None


class RunTriggerData(Frozen):
    """All that the trigger is given. Airflow stores it in clear: no form, no secret.

    Attributes:
        conn_id: where the backend's settings come from.
        ref: the attempt to follow.
        policy: what to follow it with.
        cursor: where to read its logs on.
        carried: handed back with the event.
        on_kill_action: what a kill of the task does to the run.
        veil: hides hidden values that the training prints.
    """

    conn_id: str = DEFAULT_CONN_ID
    ref: JobRef
    policy: FollowPolicy = FollowPolicy()
    cursor: LogCursor = LogCursor()
    carried: Carried
    on_kill_action: KillAction = "stop"
    veil: Veil = Veil()

    @property
    def stretch(self) -> str:
        """The name under which this trigger's lines are counted."""
        return self.ref.name + (f", part {self.carried.part}" if self.carried.part > 1 else "")


class Successor(Frozen):
    """Another attempt of somebody else's run, and the veil over its hidden values."""

    ref: JobRef
    veil: Veil


class RunEvent(Frozen):
    """What the trigger tells the operator. Carries what the next leg needs: `dag.test()` keeps nothing else.

    Attributes:
        outcome: how following ended.
        carried: as the trigger was given it.
        blind: why the run was not followed, and may live on: whoever hears of it has to stop it; "" where it was.
        successor: the attempt by which the owner of somebody else's run goes on with it; None where there is none.
    """

    outcome: Outcome
    carried: Carried
    blind: str = ""
    successor: Successor | None = None


def is_stopped_by_airflow(outcome: Outcome) -> bool:
    """Say whether the run was stopped because its task was killed, cleared or failed, and not by somebody else."""
    failure = outcome.failure
    return outcome.kind is OutcomeKind.STOPPED and failure is not None and f"by {STOPPED_BY}" in failure.summary


class RunTrigger(BaseTrigger):
    """Follows one attempt; the run itself is untouched by whatever ends this trigger, unless a user killed the task."""

    def __init__(self, **data: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        try:
            self.data = RunTriggerData.model_validate(data)
        except ValidationError as error:
            # of any other kind of error here the whole triggerer dies, and with it everybody's triggers
            # (source: Airflow 3.3.2 `airflow/jobs/triggerer_job_runner.py`, create_triggers)
            raise TypeError(f"this is no data of a RunTrigger: {error}") from error
        self._fired = self._reached = False
        self._hook = SiflowHook(self.data.conn_id)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores: class path and arguments, JSON types only."""
        return CLASSPATH, self.data.model_dump(mode="json")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the attempt and fire once."""
        started_at = datetime.now(UTC)
        try:
            event = await self._follow_uncut()
        except ConnectionMissing as error:
            event = self._event(self._unfollowed(error), blind="the triggerer can't follow it")
        if self.task_instance is not None:  # else in line (`airflow dags test`), with no scheduler that could mix up
            await until_settled(self.data.carried.deferred_at, started_at)
            if self.data.policy.own and is_stopped_by_airflow(event.outcome):
                # this task instance is not waited for any more: Airflow is about to cancel this trigger, and an event
                # now could wake the next try instead
                await asyncio.sleep(CANCEL_SECONDS)
        self._fired = True
        yield TriggerEvent(event.model_dump(mode="json"))  # type: ignore[no-untyped-call]

    def _unfollowed(self, error: ConnectionMissing) -> Outcome:
        """Return the end of a run that the worker can reach and the triggerer can't."""
        ref, hint = self.data.ref, f"{error.hint} Or wait in the worker: deferrable=False."
        did = "submitted" if self.data.policy.own else "found"
        summary = f"the worker {did} {ref.name}, but the triggerer can't follow it: {error.message}"
        self.log.error("%s %s", summary, hint)
        failure = Failure(category=FailureClass.PLATFORM, summary=summary, hint=hint)
        return Outcome(kind=OutcomeKind.FAILED, ref=ref, phase=Phase.FAILED, failure=failure)

    async def _follow_uncut(self) -> RunEvent:
        """Follow in a task of its own, so that a cancellation comes out of here as it came in.

        Airflow cancels again each second until the trigger has ended, and calls `on_kill` only where the cancellation
        that it sees says that a user acted. One that meets the closing of watches and logs may come out without its
        message, and the run would go on for nobody (source: Airflow 3.3.2 `airflow/jobs/triggerer_job_runner.py`).
        """
        following = asyncio.create_task(self._follow_patiently(), name=f"siflow-follow-{self.data.ref.name}")
        try:
            return await asyncio.shield(following)
        except asyncio.CancelledError:
            following.cancel()
            await asyncio.wait({following})
            raise

    async def _follow_patiently(self) -> RunEvent:
        """Follow; what keeps a run from being followed here for a while is no reason to give a healthy run up.

        That is an Airflow or a backend without an answer, a right that is missing, and a connection that is changed or
        gone once the run was followed: somebody can mend it, and `execution_timeout` ends the wait.

        A connection of which Airflow says, from the first look after the submission on, that the triggerer has none,
        will not come: the worker reads it from where no triggerer does.

        Raises:
            ConnectionMissing: it is so, and was asked for again for half a minute.
        """
        failures, began, news = 0, datetime.now(UTC), News()
        while True:
            try:
                return await self._follow()
            except SiflowError as error:
                failures += 1
                if isinstance(error, ConnectionMissing) and self._never_followed(began):
                    raise
                if news.is_new(str(error)):
                    self.log.warning(
                        "%s can't be followed now, it is left as it is and looked for again: %s",
                        self.data.ref.name,
                        self.data.veil.over(str(error)),
                    )
                await asyncio.sleep(pause_seconds(failures))

    def _never_followed(self, began: datetime) -> bool:
        """Say whether nobody has ever followed this run, and there was the time to mend what can be mended."""
        carried = self.data.carried
        first = self.data.ref.attempt == 1 and carried.part == 1  # else a trigger has asked for this deferral
        fresh = carried.deferred_at is not None and began - carried.deferred_at < _FRESH
        return first and fresh and not self._reached and datetime.now(UTC) - began >= _MENDING

    async def _follow(self) -> RunEvent:
        data, store = self.data, Store(self.task_instance)
        self._hook = SiflowHook(data.conn_id)  # read anew: the connection may have been mended
        settings = await self._hook.asettings(expected=data.ref.backend)
        self._reached = True
        shown = await self._shown(store)
        reporter = TaskReporter(self.log, store, veil=data.veil, shown=shown)
        reporter.note(marker(shown))
        drain = LogDrain(self.task_instance)
        await drain.find()
        async with make_backend(settings) as backend:
            paced = cast("Backend", PacedBackend(backend, drain, lambda: reporter.written))
            policy = data.carried.ledger.applied(data.policy)
            sizes = await self._sizes(store)
            sight: Any = Sight(paced, data.conn_id, settings)
            work = follow(sight, data.ref, policy, reporter, cursor=data.cursor, sizes=sizes)
            outcome = await sight.keep(work)
            successor = await self._close(backend, outcome, reporter)
        if outcome.kind is OutcomeKind.RETRY:
            await rest(policy, reporter, outcome)
        last = f"followed {data.stretch}: {outcome.kind}"
        reporter.note(last)
        await drain.until_written(last)
        return self._event(data.veil.over_outcome(outcome), successor=successor)

    async def _close(self, backend: Backend, outcome: Outcome, reporter: TaskReporter) -> Successor | None:
        """Tidy up after an own run's last attempt; of somebody else's, return the attempt that follows."""
        if self.data.policy.own:
            if outcome.final:
                await finish_run(backend, self.data.ref, reporter)
            return None
        if outcome.kind is OutcomeKind.SUCCEEDED:
            return None
        status = await successor_of(backend, outcome, reporter)
        return None if status is None else Successor(ref=status.ref, veil=status.veil)

    def _event(self, outcome: Outcome, *, blind: str = "", successor: Successor | None = None) -> RunEvent:
        return RunEvent(outcome=outcome, carried=self.data.carried, blind=blind, successor=successor)

    async def _sizes(self, store: Store) -> Sizes:
        """Return what an earlier triggerer kept; only a Ray cluster changes its size."""
        kept = await store.get(SIZES_KEY) if self.data.ref.kind == "RayJob" else None
        try:
            return Sizes.model_validate(kept or {})
        except ValidationError:  # of another version of us
            return Sizes()

    async def _shown(self, store: Store) -> Shown:
        files = await asyncio.to_thread(trigger_logs, self.task_instance)
        shown = await asyncio.to_thread(read_shown, self.data.stretch, files)
        return shown.merged(Shown.parse(await store.get(SHOWN_KEY)))

    async def on_kill(self) -> None:
        """Stop the run after a user's action on the task; called by Airflow 3.3 and later, with one second to live."""
        await self._killed()

    async def cleanup(self) -> None:
        """Keep the log of this stretch. Stops nothing but where Airflow has no `on_kill` and a user killed the task."""
        if not hasattr(BaseTrigger, "on_kill"):
            await self._killed()
        await asyncio.to_thread(keep_log, self.task_instance, self.data.stretch)

    async def _killed(self) -> None:
        # after its own event the task leaves `deferred` as well, and Airflow may call here: the run is none of its
        if self._fired or self.task_instance is None:
            return
        # a strong reference and a shield: Airflow cancels this call after a second, and the first look-up alone may
        # take longer (source: Airflow 3.3.2 `airflow/jobs/triggerer_job_runner.py`, the cancel set is sent each second)
        await asyncio.shield(
            keep_running(stop_if_killed(self.data.ref, self.task_instance, self._hook, self.log, self.data))
        )
