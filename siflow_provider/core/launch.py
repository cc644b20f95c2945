"""The one way to start a run: refuse early, adopt what exists, ask for quota, submit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from siflow_provider.core.alarms import Alarms
from siflow_provider.core.earlier import find_own
from siflow_provider.core.no_room import NoRoom
from siflow_provider.core.patience import UNTIL_ALLOWED, patiently
from siflow_provider.core.placement import Offer, ask_offers, choose, instance_of, prefer
from siflow_provider.core.policy import alert_rules
from siflow_provider.core.quota import QuotaReport, Verdict
from siflow_provider.core.status import Failure, FailureClass, JobRef, Phase, Status
from siflow_provider.core.trail import Trail
from siflow_provider.errors import BackendUnavailable, NeverAdmissibleError, NoRoomYet, UnsupportedError

if TYPE_CHECKING:
    from siflow_provider.core.outcome import Reporter
    from siflow_provider.core.protocol import Manifest, RenderContext, TrainingBackend
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["Launched", "QuotaPolicy", "launch", "submit_best", "submit_to"]

QuotaPolicy = Literal["require", "warn", "ignore"]
"""What a proof that the task can never be admitted does: fail, be noted, or not be looked for."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A run that exists.

    Attributes:
        ref: its newest attempt.
        adopted: True when it existed before: an earlier process of the same try had submitted it.
        flavor: index of the instance it went to.
        generation: which of the runs with these ids it is.
    """

    ref: JobRef
    adopted: bool
    flavor: int = 0
    generation: int = 0


async def launch(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    *,
    quota: QuotaPolicy,
    reporter: Reporter,
) -> Launched:
    """Start the run that `context.identity` names, or adopt its newest attempt where this task instance submitted one.

    What an earlier DAG run with the same ids left is never adopted: see `core.earlier`.

    Raises:
        UnsupportedError: the backend can't carry the task; all reasons at once.
        NeverAdmissibleError: with `quota="require"`, when no listed instance could ever take the task.
        NameTaken: an object of that name belongs to somebody else.
        NoRoom: the backend has no room for it now.
    """
    reasons = backend.unsupported(task)
    if reasons:
        raise UnsupportedError(reasons, backend=backend.name)
    for warning in backend.warnings(task):
        reporter.note(warning, warning=True)
    context, found = await find_own(backend, context, reporter, trail=Trail.of(task, context.identity))
    if found is not None:
        ref, flavor = found.ref, instance_of(task, found)
        attempt = f", attempt {ref.attempt}" if ref.attempt > 1 else ""
        reporter.note(f"adopted {ref.name}{attempt}: this try had submitted it before")
        await _complete(backend, prefer(task, flavor), context, found, reporter)
        return Launched(ref, adopted=True, flavor=flavor, generation=context.identity.generation)
    return await submit_best(backend, task, context, quota=quota, reporter=reporter)


async def submit_best(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    *,
    quota: QuotaPolicy,
    reporter: Reporter,
) -> Launched:
    """Submit one attempt to the listed instance that suits best now; with `quota="ignore"` to the first.

    Raises:
        NeverAdmissibleError: with `quota="require"`, when no listed instance could ever take the task.
        NameTaken: an object of that name belongs to somebody else.
        NoRoom: the backend has no room for it now.
    """
    flavor = 0
    if quota != "ignore":
        offers = await ask_offers(backend, task)
        chosen = choose(offers)
        flavor = chosen.flavor
        await _apply_quota(backend, task, context, offers, chosen, quota=quota, reporter=reporter)
    return await submit_to(backend, task, context, flavor, reporter=reporter)


async def submit_to(
    backend: TrainingBackend, task: ResolvedTask, context: RenderContext, flavor: int, *, reporter: Reporter
) -> Launched:
    """Submit one attempt to the listed instance of that index.

    Raises:
        NameTaken: an object of that name belongs to somebody else.
        NoRoom: the backend has no room for it now.
    """
    context = replace(context, moves=context.moves.model_copy(update={"flavor": flavor}))
    manifest = backend.render(prefer(task, flavor), context)
    try:
        ref = await patiently(
            lambda: backend.submit(manifest),
            what=f"submitting {manifest.name}",
            reporter=reporter,
            # this try could submit its first attempt
            ride=UNTIL_ALLOWED if context.identity.attempt > 1 else BackendUnavailable,
        )
    except NoRoomYet as error:
        raise NoRoom(await _found_or_future(backend, manifest, reporter), str(error)) from error
    where = f" on {task.flavors[flavor].instance}" if len(task.flavors) > 1 else ""
    reporter.note(f"submitted {ref.kind} {ref.name} to {backend.name}{where}")
    return Launched(ref, adopted=False, flavor=flavor, generation=context.identity.generation)


async def _complete(
    backend: TrainingBackend, task: ResolvedTask, context: RenderContext, found: Status, reporter: Reporter
) -> None:
    """Send the submission again: the one before may have been cut short between the job and what belongs to it.

    It goes to where the run is: by a form that names another place since then a second one would start there.
    """
    ref = found.ref
    there = replace(task, context=ref.context or None, namespace=ref.namespace or None)
    identity = context.identity.for_attempt(ref.attempt)
    manifest = backend.render(there, replace(context, identity=identity, moves=found.moves))
    if manifest.name == ref.name:  # else a template in the prefix gave another one, and there is one run a try
        try:
            await patiently(lambda: backend.submit(manifest), what=f"completing {ref.name}", reporter=reporter)
        except NoRoomYet as error:
            raise NoRoom(ref, str(error)) from error


async def _found_or_future(backend: TrainingBackend, manifest: Manifest, reporter: Reporter) -> JobRef:
    """Return the ref of a run that found no room: a try before, whose answer was lost, may have made its job."""
    identity, trail = manifest.context.identity, Trail.of(manifest.task, manifest.context.identity)
    found = await patiently(
        lambda: backend.find_latest(identity, trail=trail), what=f"looking for {manifest.name}", reporter=reporter
    )
    return found if found is not None and found.attempt == identity.attempt else _future(backend, manifest)


def _future(backend: TrainingBackend, manifest: Manifest) -> JobRef:
    """Return the ref of a run that is not there, and may never be."""
    identity = manifest.context.identity
    return JobRef(
        backend=backend.name,
        kind=manifest.task.task.kind,
        name=manifest.name,
        uid="",
        task_uuid=identity.task_uuid,
        attempt=identity.attempt,
    )


async def _apply_quota(
    backend: TrainingBackend,
    task: ResolvedTask,
    context: RenderContext,
    offers: list[Offer],
    chosen: Offer,
    *,
    quota: QuotaPolicy,
    reporter: Reporter,
) -> None:
    for offer in offers:
        if offer.trouble:
            reporter.note(f"quota is not known: {offer.trouble}", warning=True)
    if not chosen.never:
        if chosen.report is not None:
            _tell_of_room(chosen.report, reporter)
        return
    proof = _proof(task, offers)
    if quota == "warn":
        reporter.note(f"this task can never be admitted: {proof}", warning=True)
        return
    await _alert_never(backend, task, context, proof, reporter)
    raise NeverAdmissibleError(
        f"this task can never be admitted: {proof}.",
        hint='Ask for less, or for another instance; quota="warn" (`--quota warn` of `run`) submits it all the same.',
    )


def _tell_of_room(report: QuotaReport, reporter: Reporter) -> None:
    if not report.queued:
        reporter.note("nothing queues here: the job starts at once, and its pods wait for room one by one")
    if not report.fits_now:
        known = Verdict.NO in {report.available.verdict, report.remaining.verdict}
        waits = "the task will queue" if report.queued else "its pods will wait"
        words = f"no room now, {waits}" if known else "whether there is room now is not known"
        reporter.note(f"{words}: {report.why_not()}")


def _proof(task: ResolvedTask, offers: list[Offer]) -> str:
    texts = [(task.flavors[offer.flavor].instance, offer.report.why_not()) for offer in offers if offer.report]
    if len(texts) == 1:
        return texts[0][1].rstrip(".")
    return "; ".join(f"{instance}: {text.rstrip('.')}" for instance, text in texts)


async def _alert_never(
    backend: TrainingBackend, task: ResolvedTask, context: RenderContext, proof: str, reporter: Reporter
) -> None:
    ref = _future(backend, backend.render(task, context))
    failure = Failure(category=FailureClass.QUOTA, summary=f"this task can never be admitted: {proof}")
    status = replace(Status(ref=ref, phase=Phase.FAILED), failure=failure)
    alarms = Alarms(alert_rules(task), reporter)
    alarms.fire("never_admissible", status, failure.summary)
    await alarms.close()
