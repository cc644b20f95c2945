"""The runtime of a TrainJob: there before the job, since the webhooks ask for it, and owned by it afterwards.

A process that dies between the two leaves a runtime without an owner, which asks for nothing; the next submission of
the same attempt takes it up.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import AlreadyExists, ApiError, NotFound
from siflow_provider.backends.kubernetes.cluster.resources import TRAINING_RUNTIMES, TRAINJOBS
from siflow_provider.backends.kubernetes.life.marks import check_owner, is_leaving, owner_of
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.errors import BackendUnavailable

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["hand_over", "lacks_runtime", "prepare"]

_PAUSE_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
_UNSEEN = re.compile(r"trainingRuntime must be created before|runtime '[^']+' not found", re.IGNORECASE)
"""source: trainer v2.2.0 pkg/runtime/core/trainingruntime.go; kueue v0.17.0 pkg/controller/jobs/trainjob"""


async def prepare(api: Api, runtime: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the runtime as it stands, and whether this call made it; one that an earlier job left is waited for.

    Raises:
        NameTaken: a runtime of that name belongs to somebody else.
        BackendUnavailable: an earlier one is still being removed.
        BackendError: the cluster refuses it.
    """
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
                    if await _is_of_use(api, found):
                        return found, False
                await asyncio.sleep(_PAUSE_SECONDS)
    raise BackendUnavailable(f"an earlier TrainingRuntime {metadata['name']} is still being removed.")


async def _is_of_use(api: Api, runtime: dict[str, Any]) -> bool:
    """Say whether a runtime of ours is waiting for its job or has it."""
    if is_leaving(runtime):
        return False
    owners = [owner.get("uid") for owner in runtime["metadata"].get("ownerReferences") or []]
    if not owners:
        return True
    job = await api.get(TRAINJOBS.path(runtime["metadata"]["namespace"], runtime["metadata"]["name"]))
    return uid(job) in owners and not is_leaving(job)


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
