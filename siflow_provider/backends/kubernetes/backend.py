"""The Kubernetes backend: PyTorchJobs (or TrainJobs) and RayJobs on a cluster, queued by Kueue where it has that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from siflow_provider.backends.kubernetes import rendering
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life import finish as ending
from siflow_provider.backends.kubernetes.life import stop as stopping
from siflow_provider.backends.kubernetes.life import submit as submitting
from siflow_provider.backends.kubernetes.life import watch as watching
from siflow_provider.backends.kubernetes.life.find import (
    Place,
    all_statuses,
    find_attempts,
    find_named,
    newest_first,
)
from siflow_provider.backends.kubernetes.life.look import look
from siflow_provider.backends.kubernetes.life.marks import BACKEND
from siflow_provider.backends.kubernetes.life.places import Places
from siflow_provider.backends.kubernetes.life.room import ask_quota
from siflow_provider.backends.kubernetes.life.wanted import Wanted, wanted, wanted_of
from siflow_provider.backends.kubernetes.logs.follow import read_logs
from siflow_provider.backends.kubernetes.logs.stacks import dump_stacks
from siflow_provider.core.identity import is_job_name
from siflow_provider.core.protocol import FoundRun
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef
from siflow_provider.errors import BackendError, PartialAnswer, Reason, UnsupportedError, UsageError
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.features import TrainingApi
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.protocol import Manifest, RenderContext, TrainingBackend
    from siflow_provider.core.quota import QuotaReport
    from siflow_provider.core.status import LogCursor, LogLine, LogSelection, Status
    from siflow_provider.core.trail import Trail
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["KubernetesBackend"]

log = logging.getLogger(__name__)
T = TypeVar("T")


class KubernetesBackend:
    """Runs tasks on the cluster of a connection, and on those that its catalog names by their kubeconfig contexts.

    Args:
        settings: the connection's.

    Example:
        async with KubernetesBackend(settings) as backend:
            ref = await backend.submit(backend.render(task, context))
    """

    name = BACKEND

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._places = Places()
        self._stack: AsyncExitStack | None = None
        self._clusters: dict[str, Cluster] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Log in to the connection's own cluster; no request is sent yet.

        Raises:
            UsageError: the connection is wrong.
            SpecError: its catalog is wrong.
            BackendUnavailable: its login plugin gave nothing now.
        """
        await asyncio.to_thread(self._places.read, self._settings)
        async with AsyncExitStack() as stack:
            self._clusters[""] = await stack.enter_async_context(open_cluster(self._settings))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        self._clusters.clear()
        if stack is not None:
            await stack.aclose()

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        """Return each field that this cluster can't honour, with the reason."""
        self._places.add_task(task)
        return [*rendering.unsupported(task, self._rendered_as), *self._elastic(task)]

    def warnings(self, task: ResolvedTask) -> list[str]:
        """Return what is honoured only in part, one sentence each."""
        return rendering.warnings(task)

    def render(self, task: ResolvedTask, context: RenderContext) -> Manifest:
        """Return the objects that will be submitted, as for a cluster with queues.

        A cluster without PyTorchJob gets a TrainJob in its place, which only the submission can know.
        """
        reasons = self.unsupported(task)
        if reasons:
            raise UnsupportedError(reasons, backend=self.name)
        return rendering.render(task, context, self._rendered_as)

    async def submit(self, manifest: Manifest) -> JobRef:
        """Create the job and what belongs to it, or return the one of the same identity."""
        context = manifest.task.context or ""
        return await submitting.submit(
            await self._cluster(context), manifest, context=context, training_api=self._settings.training_api
        )

    async def find(self, identity: Identity, *, trail: Trail | None = None) -> JobRef | None:
        """Return this attempt of the run, by its labels, or by its name where jobs can't be listed."""
        found = await self._attempts(wanted([identity], trail, attempt=identity.attempt))
        return next((one.ref for one in found if not one.leaving), None)

    async def find_latest(self, run: Identity | JobRef, *, trail: Trail | None = None) -> JobRef | None:
        """Return the newest attempt of the run."""
        own = run.context if isinstance(run, JobRef) else None if trail is None else trail.context
        found = await self._attempts(wanted_of(run) if isinstance(run, JobRef) else wanted([run], trail), own)
        there = (one.ref for one in found if not one.leaving)
        return max(there, key=lambda ref: ref.attempt, default=None)

    async def find_each(self, runs: Sequence[Identity], *, trail: Trail | None = None) -> list[FoundRun | None]:
        """Return the newest attempt of each run, by as many requests as for one where jobs can be listed."""
        found = await self._attempts(wanted(runs, trail), None if trail is None else trail.context, several=True)
        return [
            max((one for one in found if one.ref.task_uuid == run.task_uuid), key=_order, default=None) for run in runs
        ]

    async def find_named(self, name: str) -> list[Status]:
        """Return the runs of that name, newest first: one a namespace at most.

        Raises:
            PartialAnswer: none is found, and a context that may have it gave no answer.
        """
        if not is_job_name(name):
            return []
        refs, silent = await self._everywhere(lambda place: find_named(place, name))
        if silent and not refs:
            raise _partial(silent)
        for context, error in silent.items():
            log.warning("no answer about %s from the context %r: %s", name, context or "(own)", error)
        return newest_first(await asyncio.gather(*map(self.status, refs)))

    async def status(self, ref: JobRef) -> Status:
        """Return the whole snapshot."""
        return await look(await self._cluster(ref.context), ref)

    async def watch(self, ref: JobRef) -> AsyncIterator[Status]:
        """Yield snapshots as they change, the terminal one last."""
        async with closing_stream(watching.watch(await self._cluster(ref.context), ref)) as statuses:
            async for status in statuses:
                yield status

    async def logs(
        self, ref: JobRef, selection: LogSelection, cursor: LogCursor, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        """Yield the lines behind `cursor`, in order per replica.

        Raises:
            UsageError: a replica is named that the run does not have.
        """
        cluster = await self._cluster(ref.context)
        lines = read_logs(cluster, ref, selection, cursor, follow=follow, statuses=self.watch(ref))
        async with closing_stream(lines) as stream:
            async for line in stream:
                yield line

    async def stop(self, ref: JobRef, *, by: str, wait: bool = True) -> None:
        """Mark and delete the run, and wait until nothing of it runs."""
        await stopping.stop(await self._cluster(ref.context), ref, by=by, wait=wait)

    async def delete(self, ref: JobRef) -> None:
        """Stop the run if need be and remove its job."""
        await stopping.delete(await self._cluster(ref.context), ref)

    async def finish(self, ref: JobRef) -> None:
        """Have the run's data on shared storage removed where the form says so."""
        await ending.finish(await self._cluster(ref.context), ref)

    async def runs(self) -> list[Status]:
        """Return every run in the namespaces of the connection and its catalog, newest first.

        Raises:
            PartialAnswer: a context gave no answer; carries the runs of the others.
        """
        found, silent = await self._everywhere(all_statuses)
        if silent:
            raise _partial(silent, newest_first(found))
        return newest_first(found)

    async def dump_stacks(self, ref: JobRef) -> dict[str, str]:
        """Return py-spy's dump per replica, or the reason why there is none."""
        return await dump_stacks(await self._cluster(ref.context), ref)

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        """Return the four answers for the whole task in the queue of its first instance."""
        return await ask_quota(
            await self._cluster(task.context or ""), task, idle=idle, training_api=self._settings.training_api
        )

    async def _attempts(self, wanted: Wanted, own: str | None = None, *, several: bool = False) -> list[FoundRun]:
        """Return what is found in any context; a silent one counts only where the run may be: in `own`, None = any."""
        if own is not None:
            self._places.add(own)
        found, silent = await self._everywhere(lambda place: find_attempts(place, wanted))
        # one run that is found is enough; of several, each of the others may be in the place that is silent
        enough = any(not one.leaving for one in found) and (not several or own is None)
        for context, error in silent.items():
            if not enough and own in {None, context}:
                raise error
            log.warning("no answer about run %s from the context %r: %s", wanted.text, context or "(own)", error)
        return found

    async def _everywhere(self, ask: Callable[[Place], Awaitable[list[T]]]) -> tuple[list[T], dict[str, BackendError]]:
        """Ask every context; return what those say that answer, and the errors of the others."""

        async def one(context: str) -> list[T] | BackendError:
            try:
                return await ask(await self._place(context))
            except BackendError as error:
                return error

        contexts = self._places.contexts()
        answers = dict(zip(contexts, await asyncio.gather(*map(one, contexts)), strict=True))
        silent = {context: answer for context, answer in answers.items() if isinstance(answer, BackendError)}
        return [item for answer in answers.values() if not isinstance(answer, BackendError) for item in answer], silent

    async def _place(self, context: str) -> Place:
        cluster = await self._cluster(context)
        return Place(cluster, context, self._places.namespaces(context, cluster.namespace), self._settings.training_api)

    async def _cluster(self, context: str) -> Cluster:
        if self._stack is None:
            hint = "Use it as `async with KubernetesBackend(...) as backend`."
            raise UsageError("the backend is not open.", hint=hint)
        async with self._opening:
            if context not in self._clusters:
                self._clusters[context] = await self._stack.enter_async_context(open_cluster(self._settings, context))
        return self._clusters[context]

    @property
    def _rendered_as(self) -> TrainingApi:
        return "TrainJob" if self._settings.training_api == "trainjob" else "PyTorchJob"

    def _elastic(self, task: ResolvedTask) -> list[Reason]:
        form = task.task
        scales = isinstance(form, RayJob) and form.ray.autoscaling is not None
        if not scales or self._settings.elastic_jobs or all(flavor.queue is None for flavor in task.flavors):
            return []
        why = (
            "Kueue takes a job that changes its size only with the gate ElasticJobsViaWorkloadSlices; where it is on, "
            "say `elastic_jobs: true` in the connection"
        )
        return [Reason("ray.autoscaling", "ElasticJobsOff", why)]


def _order(found: FoundRun) -> tuple[int, bool]:
    return found.ref.attempt, not found.leaving


def _partial(silent: Mapping[str, BackendError], found: Sequence[Status] = ()) -> PartialAnswer:
    """Return the error that names each context without an answer, in its own words."""
    told = "; ".join(f"context {context or '(own)'!r}: {error.message}" for context, error in silent.items())
    hint = next((error.hint for error in silent.values() if error.hint), "")
    return PartialAnswer(f"no answer about its runs from {told}", found=found, hint=hint)


if TYPE_CHECKING:
    _: type[TrainingBackend] = KubernetesBackend
