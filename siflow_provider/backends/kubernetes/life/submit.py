"""A submission: the job first, then what belongs to it, owned by it so that it goes with it.

Every step may be done twice, and any process may die between two of them: names are fixed, so an object that exists is
either ours and kept, or somebody else's and an error. A job without its Secret waits; the next submission of the same
attempt brings it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    CONFIGMAPS,
    PODMONITORS,
    SECRETS,
    TRAINING_RUNTIMES,
    Resource,
    job_resource,
)
from siflow_provider.backends.kubernetes.life.look import has_ended, note_made
from siflow_provider.backends.kubernetes.life.marks import (
    OTHER_NAME,
    check_owner,
    is_leaving,
    owner_of,
    owner_text,
    ref_of,
    submission_notes,
)
from siflow_provider.backends.kubernetes.life.runtime import hand_over, lacks_runtime, prepare
from siflow_provider.backends.kubernetes.life.ssh_keys import with_key
from siflow_provider.backends.kubernetes.metadata import is_queued
from siflow_provider.backends.kubernetes.names import ANNOTATION_SUBMITTED_AT
from siflow_provider.backends.kubernetes.rendering import job_in, render, revealed
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.errors import BackendError, BackendUnavailable, NameTaken, NoRoomYet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from siflow_provider.backends.kubernetes.cluster.features import Features
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.protocol import Manifest
    from siflow_provider.core.status import JobRef

__all__ = ["submit"]

log = logging.getLogger(__name__)

_PARTS = {resource.kind: resource for resource in (SECRETS, CONFIGMAPS, PODMONITORS)}
_TRIES = 5
_UNTIL_SEEN = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between the tries of a job whose runtime the webhooks do not see yet."""
_OPERATORS = {
    "PyTorchJob": "the Kubeflow training operator or Kubeflow Trainer",
    "TrainJob": "Kubeflow Trainer",
    "RayJob": "KubeRay",
}


async def submit(cluster: Cluster, manifest: Manifest, *, context: str, training_api: str = "auto") -> JobRef:
    """Create the job of a manifest and what belongs to it, or complete and return the one of the same attempt.

    Args:
        cluster: where.
        manifest: what; without a queue in the cluster it is rendered anew, to start at once, and where the cluster has
            another API for it than it was rendered for.
        context: the kubeconfig context as a ref names it; "" for the connection's own.
        training_api: the connection's word on what a form of kind PyTorchJob becomes.

    Raises:
        NameTaken: an object of that name belongs to somebody else.
        BackendError: the cluster does not know the kind, or refuses the object; nothing of it is left.
        UnsupportedError: the cluster's API can't carry the task.
        BackendUnavailable: no answer now, or an object of that name is still being removed.
        NoRoomYet: a ResourceQuota has no room for it, or for what belongs to it; a job just made is removed again.
    """
    features = await cluster.features()
    manifest = _fitted(manifest, features, training_api)
    job, runtime, parts = _documents(manifest, cluster.namespace, features)
    found, fresh = await _create(cluster, job, runtime)
    ref = ref_of(found, context=context)
    if ref is None:
        raise NameTaken(f"{job['kind']} {manifest.name} belongs to {owner_text(found)}.", hint=OTHER_NAME)
    if fresh or not has_ended(ref, found):
        async with _undone(cluster, _path(job), found, made=fresh):
            await asyncio.gather(*(_complete(cluster, part, found) for part in parts))
    if fresh:
        note_made(cluster, found)
    return ref


@asynccontextmanager
async def _undone(cluster: Cluster, path: str, one: dict[str, Any], *, made: bool) -> AsyncIterator[None]:
    """Remove what this call made where what belongs to it is refused: it may hold machines, and nobody knows of it."""
    try:
        yield
    except BackendError as error:
        if made and (isinstance(error, NoRoomYet) or not isinstance(error, BackendUnavailable)):
            try:
                await cluster.api.delete(path, uid=uid(one))
            except BackendError as left:  # why it was to go matters more, and is raised
                log.warning("%s of a submission that was refused could not be removed: %s", path, left)
        raise


def _fitted(manifest: Manifest, features: Features, training_api: str) -> Manifest:
    """Return the manifest as it suits the cluster, under the same name."""
    api = features.training_api(training_api)
    kind = "RayJob" if manifest.task.task.kind == "RayJob" else api
    served = {"RayJob": features.rayjob, "PyTorchJob": features.pytorchjob, "TrainJob": features.trainjob}
    if not served[kind]:
        resource = job_resource(kind)
        raise BackendError(
            f"the cluster does not know {kind} ({resource.api_version}).",
            hint=f"Have {_OPERATORS[kind]} installed, or use another cluster; `siflow-provider doctor` tells more.",
        )
    queued = features.kueue and is_queued(manifest.task, manifest.context)
    fits = job_in(manifest.documents)["kind"] == kind and queued == is_queued(manifest.task, manifest.context)
    if fits:
        return manifest
    return replace(render(manifest.task, replace(manifest.context, queued=queued), api), name=manifest.name)


def _documents(
    manifest: Manifest, namespace: str, features: Features
) -> tuple[dict[str, Any], dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the job, its runtime and the rest: hidden values in their Secret, the namespace filled in."""
    documents = revealed(manifest)
    if manifest.task.task.ssh:
        documents = with_key(documents, manifest)
    kept = [document for document in documents if document["kind"] != PODMONITORS.kind or features.podmonitor]
    placed = [{**document, "metadata": {"namespace": namespace, **document["metadata"]}} for document in kept]
    runtime = placed.pop(0) if placed[0]["kind"] == TRAINING_RUNTIMES.kind else None
    job, *parts = placed
    metadata = job["metadata"]
    metadata["name"] = manifest.name
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **submission_notes(manifest)}
    return job, runtime, parts


async def _create(cluster: Cluster, job: dict[str, Any], runtime: dict[str, Any] | None) -> tuple[dict[str, Any], bool]:
    """Return the job as it stands, and whether this call made it; a TrainJob with the runtime that it needs."""
    if runtime is None:
        return await _create_or_adopt(cluster, job)
    there, fresh = await prepare(cluster.api, runtime)
    async with _undone(cluster, _path(runtime, TRAINING_RUNTIMES), there, made=fresh):
        found, fresh = await _once_seen(cluster, job)
        async with _undone(cluster, _path(job), found, made=fresh):
            await hand_over(cluster.api, there, found)
    return found, fresh


async def _once_seen(cluster: Cluster, job: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Create the job; webhooks see a runtime that was just made a moment later."""
    for pause in _UNTIL_SEEN:
        try:
            return await _create_or_adopt(cluster, job)
        except ApiError as error:
            if not lacks_runtime(error):
                raise
        await asyncio.sleep(pause)
    return await _create_or_adopt(cluster, job)


async def _create_or_adopt(cluster: Cluster, job: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the job as it stands, and whether this call made it."""
    resource = job_resource(job["kind"])
    for _ in range(_TRIES):
        with suppress(AlreadyExists):
            return await cluster.api.create(resource.path(job["metadata"]["namespace"]), job), True
        try:
            found = await cluster.api.get(_path(job))
        except NotFound:
            continue  # it went in between
        check_owner(found, job)
        if is_leaving(found):
            raise BackendUnavailable(f"an earlier {job['kind']} {job['metadata']['name']} is still being removed.")
        return found, _submitted_at(found) == _submitted_at(job)  # the answer to our own may have been lost
    raise BackendUnavailable(f"{job['kind']} {job['metadata']['name']} comes and goes while it is being submitted.")


def _submitted_at(job: dict[str, Any]) -> str | None:
    found = (job["metadata"].get("annotations") or {}).get(ANNOTATION_SUBMITTED_AT)
    return None if found is None else str(found)


async def _complete(cluster: Cluster, part: dict[str, Any], job: dict[str, Any]) -> None:
    """Create what belongs to the job; one that this job owns already is kept, since pods may hold it."""
    resource = _PARTS[part["kind"]]
    body = {**part, "metadata": {**part["metadata"], "ownerReferences": [owner_of(job)]}}
    for _ in range(_TRIES):
        with suppress(AlreadyExists):
            await cluster.api.create(resource.path(part["metadata"]["namespace"]), body)
            return
        if await _is_in_place(cluster, resource, part, uid(job)):
            return
    raise BackendUnavailable(f"an earlier {part['kind']} {part['metadata']['name']} is still being removed.")


async def _is_in_place(cluster: Cluster, resource: Resource, part: dict[str, Any], job_uid: str) -> bool:
    """Say whether the object of that name is this job's; one that an earlier job left is removed.

    The cluster removes what a deleted job owned in its own time; it would then go from under the new job.
    """
    path = _path(part, resource)
    try:
        there = await cluster.api.get(path)
    except NotFound:
        return False
    owners = [owner.get("uid") for owner in there["metadata"].get("ownerReferences") or []]
    if job_uid in owners:
        return True
    labels = there["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in part["metadata"]["labels"].items()):
        name = f"{part['kind']} {part['metadata']['name']}"
        raise NameTaken(f"{name} belongs to {owner_text(there)}.", hint=OTHER_NAME)
    with suppress(Conflict):  # another one took its place meanwhile
        await cluster.api.delete(path, uid=uid(there))
    return False


def _path(document: dict[str, Any], resource: Resource | None = None) -> str:
    metadata = document["metadata"]
    return (resource or job_resource(document["kind"])).path(metadata["namespace"], metadata["name"])
