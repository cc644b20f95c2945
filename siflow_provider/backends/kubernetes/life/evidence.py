"""The last lines of the replica that failed: what a person asks for first. Hidden values are masked in every text.

Controllers quote what a program printed (Ray's job message does), so every text of a snapshot may hold one.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.resources import PODS
from siflow_provider.backends.kubernetes.logs.pods import main_container
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.backends.kubernetes.state.replicas import replica_names
from siflow_provider.core.diagnosis import MAX_LAST_LINES
from siflow_provider.core.diagnosis import with_last_lines as judged_with
from siflow_provider.core.pieces import settled
from siflow_provider.core.status import main_replica
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster
    from siflow_provider.backends.kubernetes.state.objects import Object, Seen
    from siflow_provider.core.status import Status
    from siflow_provider.core.veil import Veil

__all__ = ["veiled", "with_last_lines"]

_BYTES = 256 * 1024


async def with_last_lines(cluster: Cluster, status: Status, seen: Seen) -> Status:
    """Return the snapshot of a failed run with its last lines, as far as they can be read now."""
    failure, job = status.failure, seen.job
    if failure is None or job is None:
        return status
    if not failure.last_lines:
        replica = failure.replica or main_replica(status.ref.kind)
        names = replica_names(status.ref.kind, job, seen.pods)
        pod = next((pod for pod in seen.pods if names.get(uid(pod)) == replica), None)
        lines = () if pod is None else await _tail(cluster, pod, replica, status.veil)
        failure = judged_with(failure, lines, status.veil)
    return replace(status, failure=failure)


def veiled(status: Status) -> Status:
    """Return the snapshot with each hidden value in its texts masked."""
    veil = status.veil
    if not veil.marks:
        return status
    return replace(
        status,
        reason=veil.over(status.reason),
        replicas=tuple(replace(each, reason=veil.over(each.reason)) for each in status.replicas),
        events=tuple(replace(each, text=veil.over(each.text)) for each in status.events),
        failure=None if status.failure is None else veil.over_failure(status.failure),
    )


async def _tail(cluster: Cluster, pod: Object, replica: str, veil: Veil) -> tuple[str, ...]:
    """Return the last lines of a replica, () when they can't be read; a limit at their end cuts no hidden value."""
    metadata: Any = pod["metadata"]
    query = {"container": main_container(pod, replica), "tailLines": str(MAX_LAST_LINES), "limitBytes": str(_BYTES)}
    read = bytearray()
    try:
        async with aclosing(
            cluster.api.stream(PODS.path(metadata["namespace"], metadata["name"], "log"), query, silence=10.0)
        ) as chunks:
            async for chunk in chunks:
                read += chunk
    except BackendError:  # the evidence is a help, and never worth an error
        return ()
    text = bytes(read)
    whole = text if len(text) < _BYTES else text[: settled(text, veil)]
    return tuple(whole.decode(errors="replace").splitlines()[-MAX_LAST_LINES:])
