"""`TrainingJobSensor`: waits for a run that somebody else started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import PokeReturnValue, XComArg

from siflow_provider.backends import make_backend
from siflow_provider.core.follow import follow
from siflow_provider.core.identity import is_job_name
from siflow_provider.core.outcome import FollowPolicy, RunEnd, Totals
from siflow_provider.core.room import News
from siflow_provider.core.status import JobRef
from siflow_provider.core.successor import expected_until
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendUnavailable, RunFailed, UsageError
from siflow_provider.hooks.siflow import DEFAULT_CONN_ID, SiflowHook
from siflow_provider.operators.bridge import run_blocking
from siflow_provider.operators.keywords import refuse, wrong_logs
from siflow_provider.operators.outcome import finish
from siflow_provider.sensors.base import SiflowSensor, Unanswered, refusing
from siflow_provider.triggers.find import FindRunTrigger, find_run
from siflow_provider.triggers.reporter import TaskReporter
from siflow_provider.triggers.run import Carried, RunEvent, RunTrigger, RunTriggerData
from siflow_provider.triggers.store import Store

if TYPE_CHECKING:
    from airflow.sdk import Context

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.status import Status
    from siflow_provider.operators.arguments import Logs

__all__ = ["TrainingJobSensor"]


class TrainingJobSensor(SiflowSensor):
    """Wait until a run ended that another task, the CLI or a person started; its end is this task's end.

    A run that ended well passes with the same `return_value` as the operators'; one that failed, was stopped or is
    lost fails this task without retry (`soft_fail` skips it, as Airflow defines). The run belongs to somebody else:
    nothing of it is stopped, removed or tidied up, whatever becomes of this task or of the run.

    Follows the newest attempt. After one that failed in a way that another attempt can cure, or that is gone, it looks
    for the next one, two minutes longer than an owner pauses before it; a run does not tell how many its owner allows.

    Args:
        name: the run's full name, such as `bert-3f9c1a7`; it need not exist yet.
        ref: what an operator pushed (`train.output`), or a `JobRef`: name and, where given, uid are matched.
        conn_id: the Airflow connection on whose backend the run is.
        logs: whose lines the task log shows: `master`, `all`, `none` or names of replicas.
        deferrable: wait in the triggerer (the default, unless `mode="reschedule"`).
        kwargs: every keyword of an Airflow sensor.

    Example:
        TrainingJobSensor(task_id="wait", name="bert-{{ params.suffix }}", timeout=24 * 3600)
    """

    template_fields: Sequence[str] = ("name", "ref")
    ui_color = "#e6f4ea"

    name: str | XComArg | None
    ref: JobRef | Mapping[str, Any] | str | XComArg | None
    conn_id: str
    logs: Logs
    _news: News | None = None

    def __init__(
        self,
        *,
        name: str | XComArg | None = None,
        ref: JobRef | Mapping[str, Any] | str | XComArg | None = None,
        conn_id: str = DEFAULT_CONN_ID,
        logs: Logs = "master",
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(deferrable=deferrable, **kwargs)
        refuse((*self._wrong, *wrong_logs(logs)), task_id=self.task_id)
        if (name is None) == (ref is None):
            raise UsageError(f"TrainingJobSensor {self.task_id!r} needs exactly one of `name` and `ref`.")
        self.name = name
        self.ref = ref.model_dump(mode="json") if isinstance(ref, JobRef) else ref
        self.conn_id = conn_id
        self.logs = logs

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look for the run; once it ended, return its result."""
        with refusing():
            settings = SiflowHook(self.conn_id).settings()
            name, uid = self._wanted()
            status = self._look(settings, name, uid)
            if status is None or not status.phase.terminal or _awaited(status):
                return False
            reporter = TaskReporter(self.log, Store(context["ti"]), veil=status.veil)
            end = run_blocking(lambda: _end(settings, status, self._policy(), reporter))
        return PokeReturnValue(is_done=True, xcom_value=self._finished(end))

    def wait_deferred(self, context: Context) -> Any:
        """Wait in the triggerer: for the run to appear, then for its end."""
        with refusing():
            name, uid = self._wanted()
            settings = SiflowHook(self.conn_id).settings()
            status = self._look(settings, name, uid)
        deadline = datetime.now(UTC) + self.time_to_wait()
        if status is not None:
            self._defer_to_end(status.ref, status.veil, deadline)
        self.defer(
            trigger=FindRunTrigger(
                self.conn_id,
                name,
                uid,
                interval=self.poke_interval,
                deadline=deadline.isoformat(),
                backend=settings.backend,
                deferred_at=datetime.now(UTC).isoformat(),
            ),
            method_name="run_found",
            timeout=_left(deadline),
        )

    def run_found(self, context: Context, event: dict[str, Any], **_: Any) -> None:
        """Go on waiting, for the end of the run that was found."""
        if event["error"]:
            raise Unanswered(event["error"])
        ref, veil = JobRef.model_validate(event["ref"]), Veil.model_validate(event["veil"])
        self._defer_to_end(ref, veil, datetime.fromisoformat(event["deadline"]))

    def run_ended(self, context: Context, event: dict[str, Any], **_: Any) -> dict[str, Any]:
        """End as the run ended, or go on waiting where its owner has submitted another attempt."""
        told = RunEvent.model_validate(event)
        if told.successor is not None:
            ref, veil = told.successor.ref, told.successor.veil
            self.log.info(
                "attempt %d ended as %s, following %s", told.outcome.ref.attempt, told.outcome.phase, ref.name
            )
            self._defer_to_end(ref, veil, told.carried.deadline or datetime.now(UTC))
        return self._finished(RunEnd(told.outcome, Totals()))

    def _defer_to_end(self, ref: JobRef, veil: Veil, deadline: datetime) -> None:
        data = RunTriggerData(
            conn_id=self.conn_id,
            ref=ref,
            policy=self._policy(),
            carried=Carried(prefix=ref.name, deadline=deadline, deferred_at=datetime.now(UTC)),
            on_kill_action="detach",
            veil=veil,
        )
        self.defer(trigger=RunTrigger(**data.model_dump(mode="json")), method_name="run_ended", timeout=_left(deadline))

    def _wanted(self) -> tuple[str, str]:
        """Return the run's name and, where known, its uid.

        Raises:
            UsageError: what was given, or what another task gave, can be the name of no run, so none would ever come.
        """
        name, uid = self._given()
        if not is_job_name(name):
            what = f"{name!r} can be the name of no run" if name else "no run is named: what was rendered is empty"
            hint = (
                'Give the name that `siflow-provider ps` lists, or what an operator pushed: {"name": ..., "uid": ...}.'
            )
            raise UsageError(f"{what}.", hint=hint)
        return name, uid

    def _given(self) -> tuple[str, str]:
        if self.ref is None:
            return _text(self.name), ""
        ref: Any = self.ref
        try:
            ref = json.loads(ref) if isinstance(ref, str) and ref.lstrip().startswith("{") else ref
            name, uid = (ref["name"], ref.get("uid", "")) if isinstance(ref, Mapping) else (ref, "")
        except (ValueError, KeyError):
            hint = 'Give what an operator pushed: {"name": ..., "uid": ...}.'
            raise UsageError("`ref` names no run.", hint=hint) from None
        return _text(name), _text(uid)

    def _policy(self) -> FollowPolicy:
        return FollowPolicy(own=False, logs=self.logs if isinstance(self.logs, str) else tuple(self.logs))

    def _look(self, settings: Settings, name: str, uid: str) -> Status | None:
        """Return the run as it is now, and say what was seen where that is news; no answer is as good as not seen."""
        try:
            status = run_blocking(lambda: _find(settings, name, uid))
        except BackendUnavailable as error:
            self._say(f"no answer from the backend, looking again: {error}")
            return None
        if status is None:
            self._say(f"no run named {name} yet")
        else:
            self._say(f"{status.ref.name} is {status.phase} {status.veil.over(status.reason)}{_awaited(status)}")
        return status

    def _say(self, text: str) -> None:
        self._news = self._news or News()
        if self._news.is_new(text):
            self.log.info("%s", text.rstrip())

    def _finished(self, end: RunEnd) -> dict[str, Any]:
        try:
            return finish(end)
        except RunFailed as error:
            raise AirflowFailException(str(error)) from None


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _left(deadline: datetime) -> timedelta:
    return max(timedelta(), deadline - datetime.now(UTC))


def _awaited(status: Status) -> str:
    """Say until when another attempt may come after one that ended; "" where none is expected."""
    now = datetime.now(UTC)
    until = expected_until(status, now) if status.phase.terminal else now
    return f"; looking until {until:%H:%M:%S} UTC for another attempt by its owner" if until > now else ""


async def _find(settings: Settings, name: str, uid: str) -> Status | None:
    async with make_backend(settings) as backend:
        return await find_run(backend, name, uid)


async def _end(settings: Settings, status: Status, policy: FollowPolicy, reporter: TaskReporter) -> RunEnd:
    async with make_backend(settings) as backend:
        outcome = await follow(backend, status.ref, policy, reporter)
    return RunEnd(status.veil.over_outcome(outcome), Totals())
