"""The runtime of a TrainJob: there before the job, since the webhooks ask for it, and owned by it afterwards.

A process that dies between the two leaves a runtime without an owner, which asks for nothing. The next submission of
the same attempt takes it up where it is, byte for byte, what it would make itself, and makes it anew where it is not:
the attempt may go to another instance by now, or the form may have changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import TRAINING_RUNTIMES, TRAINJOBS
from siflow_provider.backends.kubernetes.life.marks import check_owner, is_leaving, owner_of
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["hand_over", "lacks_runtime", "prepare"]

_SEAL = f"{LABEL_PREFIX}digest"
_PAUSE_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
_UNSEEN = re.compile(r"trainingRuntime must be created before|runtime '[^']+' not found", re.IGNORECASE)
"""source: trainer v2.2.0 pkg/runtime/core/trainingruntime.go; kueue v0.17.0 pkg/controller/jobs/trainjob"""


async def prepare(api: Api, runtime: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the runtime as it stands, and whether this call made it.

    One that an earlier job left is waited for; one without a job that is another than the wanted one is replaced.

    Raises:
        NameTaken: a runtime of that name belongs to somebody else.
        BackendUnavailable: an earlier one is still being removed.
        BackendError: the cluster refuses it.
    """
    runtime = _sealed(runtime)
    metadata = runtime["metadata"]
    path = TRAINING_RUNTIMES.path(metadata["namespace"], metadata["name"])
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                with suppress(AlreadyExists):
                    return await api.create(TRAINING_RUNTIMES.path(metadata["namespace"]), runtime), True
                with suppress(NotFound):
                    found = await api.get(path)
                    check_owner(found, runtime)
                    job = await _job_of(api, found)
                    if not is_leaving(found) and _is_of_use(found, job, runtime):
                        return found, False
                    if job is None and not _owners(found) and not is_leaving(found):
                        with suppress(Conflict):  # another one took its place meanwhile
                            await api.delete(path, uid=uid(found))
                        continue
                await asyncio.sleep(_PAUSE_SECONDS)
    raise BackendUnavailable(f"an earlier TrainingRuntime {metadata['name']} is still being removed.")


def _sealed(runtime: dict[str, Any]) -> dict[str, Any]:
    """Return the runtime with a digest of all that it is: the server fills in defaults, so it can't be compared."""
    text = json.dumps(runtime, sort_keys=True, separators=(",", ":"))
    seal = {_SEAL: hashlib.sha256(text.encode()).hexdigest()}
    notes = {**(runtime["metadata"].get("annotations") or {}), **seal}
    return {**runtime, "metadata": {**runtime["metadata"], "annotations": notes}}


async def _job_of(api: Api, runtime: dict[str, Any]) -> dict[str, Any] | None:
    """Return the job that the runtime is for; one that is being deleted counts as gone."""
    try:
        job = await api.get(TRAINJOBS.path(runtime["metadata"]["namespace"], runtime["metadata"]["name"]))
    except NotFound:
        return None
    return None if is_leaving(job) else job


def _owners(runtime: dict[str, Any]) -> list[Any]:
    return [owner.get("uid") for owner in runtime["metadata"].get("ownerReferences") or []]


def _is_of_use(found: dict[str, Any], job: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Say whether a runtime of ours has its job, or waits for just this one."""
    if job is not None:
        return not _owners(found) or uid(job) in _owners(found)
    seals = [(each["metadata"].get("annotations") or {}).get(_SEAL) for each in (found, wanted)]
    return not _owners(found) and seals[0] == seals[1]


async def hand_over(api: Api, runtime: dict[str, Any], job: dict[str, Any]) -> None:
    """Give the runtime to its job, with which it then goes. Idempotent."""
    if runtime["metadata"].get("ownerReferences"):
        return
    metadata = runtime["metadata"]
    patch = {"metadata": {"uid": uid(runtime), "ownerReferences": [owner_of(job)]}}
    await api.patch(TRAINING_RUNTIMES.path(metadata["namespace"], metadata["name"]), patch)


def lacks_runtime(error: ApiError) -> bool:
    """Say whether a webhook has refused a TrainJob because it does not see the runtime, yet."""
    return _UNSEEN.search(error.detail) is not None
