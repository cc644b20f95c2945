"""A submission: the job first, then what belongs to it, owned by it so that it goes with it.

Every step may be done twice, and any process may die between two of them: names are fixed, so an object that exists is
either ours and kept, or somebody else's and an error. A job without its Secret waits; the next submission of the same
attempt brings it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists, Conflict, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    CONFIGMAPS,
    PODMONITORS,
    SECRETS,
    Resource,
    job_resource,
)
from siflow_provider.backends.kubernetes.life.look import has_ended
from siflow_provider.backends.kubernetes.life.marks import (
    LABEL_ATTEMPT,
    LABEL_RUN,
    is_leaving,
    owner_text,
    ref_of,
    submission_notes,
    uid_of,
)
from siflow_provider.backends.kubernetes.life.ssh_keys import key_secret
from siflow_provider.backends.kubernetes.metadata import is_queued
from siflow_provider.backends.kubernetes.names import ANNOTATION_SUBMITTED_AT, LABEL_MANAGED_BY
from siflow_provider.backends.kubernetes.rendering import render, revealed
from siflow_provider.errors import BackendError, BackendUnavailable, NameTaken, NoRoomYet

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.features import Features
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.core.protocol import Manifest
    from siflow_provider.core.status import JobRef

__all__ = ["submit"]

_PARTS = {resource.kind: resource for resource in (SECRETS, CONFIGMAPS, PODMONITORS)}
_TRIES = 5
_OPERATORS = {"PyTorchJob": "the Kubeflow training operator", "RayJob": "KubeRay"}


async def submit(cluster: Cluster, manifest: Manifest, *, context: str) -> JobRef:
    """Create the job of a manifest and what belongs to it, or complete and return the one of the same attempt.

    Args:
        cluster: where.
        manifest: what; without a queue in the cluster it is rendered anew, to start at once.
        context: the kubeconfig context as a ref names it; "" for the connection's own.

    Raises:
        NameTaken: an object of that name belongs to somebody else.
        BackendError: the cluster does not know the kind, or refuses the object; nothing of it is left.
        BackendUnavailable: no answer now, or an object of that name is still being removed.
        NoRoomYet: a ResourceQuota has no room for it, or for what belongs to it; a job just made is removed again.
    """
    features = await cluster.features()
    manifest = _fitted(manifest, features)
    job, *parts = _documents(manifest, cluster.namespace, features)
    found, fresh = await _create_or_adopt(cluster, job)
    ref = ref_of(found, context=context)
    if ref is None:
        raise NameTaken(f"{job['kind']} {manifest.name} belongs to {owner_text(found)}.")
    if fresh or not has_ended(ref, found):
        try:
            await asyncio.gather(*(_complete(cluster, part, found) for part in parts))
        except BackendError as error:
            # it could not start, while it held its machines; and nobody else knows of it
            if fresh and (isinstance(error, NoRoomYet) or not isinstance(error, BackendUnavailable)):
                await cluster.api.delete(_path(job), uid=ref.uid)
            raise
    return ref


def _fitted(manifest: Manifest, features: Features) -> Manifest:
    """Return the manifest as it suits the cluster, under the same name."""
    kind = manifest.task.task.kind
    served = features.rayjob if kind == "RayJob" else features.pytorchjob
    if not served:
        resource = job_resource(kind)
        raise BackendError(
            f"the cluster does not know {kind} ({resource.api_version}).",
            hint=f"Have {_OPERATORS[kind]} installed, or use another cluster; `siflow-provider doctor` tells more.",
        )
    if features.kueue or not is_queued(manifest.task, manifest.context):
        return manifest
    return replace(render(manifest.task, replace(manifest.context, queued=False)), name=manifest.name)


def _documents(manifest: Manifest, namespace: str, features: Features) -> list[dict[str, Any]]:
    """Return what is sent, the job first: hidden values in their Secret, the namespace filled in."""
    documents = revealed(manifest)
    if manifest.task.task.ssh:
        documents.append(key_secret(manifest))
    kept = [document for document in documents if document["kind"] != PODMONITORS.kind or features.podmonitor]
    placed = [{**document, "metadata": {"namespace": namespace, **document["metadata"]}} for document in kept]
    metadata = placed[0]["metadata"]
    metadata["name"] = manifest.name
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **submission_notes(manifest)}
    return placed


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
        _check_owner(found, job)
        if is_leaving(found):
            raise BackendUnavailable(f"an earlier {job['kind']} {job['metadata']['name']} is still being removed.")
        return found, _submitted_at(found) == _submitted_at(job)  # the answer to our own may have been lost
    raise BackendUnavailable(f"{job['kind']} {job['metadata']['name']} comes and goes while it is being submitted.")


def _submitted_at(job: dict[str, Any]) -> str | None:
    found = (job["metadata"].get("annotations") or {}).get(ANNOTATION_SUBMITTED_AT)
    return None if found is None else str(found)


def _check_owner(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    labels, ours = found["metadata"].get("labels") or {}, wanted["metadata"]["labels"]
    if any(labels.get(key) != ours[key] for key in (LABEL_MANAGED_BY, LABEL_RUN, LABEL_ATTEMPT)):
        name, namespace = found["metadata"]["name"], found["metadata"]["namespace"]
        raise NameTaken(
            f"{wanted['kind']} {name} in namespace {namespace} belongs to {owner_text(found)}.",
            hint="Choose another name_prefix, or have that object removed.",
        )


async def _complete(cluster: Cluster, part: dict[str, Any], job: dict[str, Any]) -> None:
    """Create what belongs to the job; one that this job owns already is kept, since pods may hold it."""
    resource = _PARTS[part["kind"]]
    body = {**part, "metadata": {**part["metadata"], "ownerReferences": [_owner(job)]}}
    for _ in range(_TRIES):
        with suppress(AlreadyExists):
            await cluster.api.create(resource.path(part["metadata"]["namespace"]), body)
            return
        if await _is_in_place(cluster, resource, part, uid_of(job)):
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
        raise NameTaken(f"{part['kind']} {part['metadata']['name']} belongs to {owner_text(there)}.")
    with suppress(Conflict):  # another one took its place meanwhile
        await cluster.api.delete(path, uid=uid_of(there))
    return False


def _owner(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": uid_of(job),
        "blockOwnerDeletion": False,
    }


def _path(document: dict[str, Any], resource: Resource | None = None) -> str:
    metadata = document["metadata"]
    return (resource or job_resource(document["kind"])).path(metadata["namespace"], metadata["name"])
