"""What our objects carry so that they are found again, and what a submission and a stop write on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from siflow_provider.backends.kubernetes.names import (
    ANNOTATION_STOPPED_AT,
    ANNOTATION_STOPPED_BY,
    ANNOTATION_SUBMITTED_AT,
    ANNOTATION_VEIL,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from siflow_provider.backends.kubernetes.state.objects import uid
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.core.status import JobRef
from siflow_provider.core.veil import Veil
from siflow_provider.errors import NameTaken

if TYPE_CHECKING:
    from siflow_provider.core.protocol import Manifest
    from siflow_provider.core.status import Kind

__all__ = [
    "BACKEND",
    "LABEL_ATTEMPT",
    "LABEL_RUN",
    "OTHER_NAME",
    "check_owner",
    "is_leaving",
    "owner_of",
    "owner_text",
    "ref_of",
    "selector",
    "stop_notes",
    "stopped_by",
    "submission_notes",
    "submitted_order",
]

BACKEND = "kubernetes"
LABEL_RUN = f"{LABEL_PREFIX}run"
LABEL_ATTEMPT = f"{LABEL_PREFIX}attempt"
_KINDS = {"PyTorchJob": ("PyTorchJob", ""), "RayJob": ("RayJob", ""), "TrainJob": ("PyTorchJob", "TrainJob")}
"""Kind of an object -> kind of the form, and what a ref says of the object where that is another word."""
OTHER_NAME = "Choose another name_prefix, or have that object removed."
"""What to do where a name is taken."""


def selector(run: str | Sequence[str] | None = None, attempt: int | None = None) -> str:
    """Return the label selector of all our objects, of a run's, of several runs', or of one attempt's.

    Example:
        >>> selector("0b5c", 2)
        'app.kubernetes.io/managed-by=siflow-provider,siflow-provider/run=0b5c,siflow-provider/attempt=2'
    """
    wanted = [f"{LABEL_MANAGED_BY}={MANAGED_BY}"]
    if run is not None:
        wanted.append(f"{LABEL_RUN}={run}" if isinstance(run, str) else f"{LABEL_RUN} in ({','.join(run)})")
    if attempt is not None:
        wanted.append(f"{LABEL_ATTEMPT}={attempt}")
    return ",".join(wanted)


def ref_of(job: Mapping[str, Any], *, context: str) -> JobRef | None:
    """Return where the job is; None for one that is not ours or whose labels were changed."""
    metadata = job["metadata"]
    labels = metadata.get("labels") or {}
    attempt, kind = labels.get(LABEL_ATTEMPT, ""), job.get("kind")
    ours = labels.get(LABEL_MANAGED_BY) == MANAGED_BY and LABEL_RUN in labels
    if not ours or kind not in _KINDS or not (attempt.isdecimal() and attempt.isascii()):
        return None
    kind, api = _KINDS[kind]
    return JobRef(
        backend=BACKEND,
        kind=cast("Kind", kind),
        api=api,
        name=metadata["name"],
        context=context,
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        task_uuid=labels[LABEL_RUN],
        attempt=int(attempt),
    )


def is_leaving(thing: Mapping[str, Any]) -> bool:
    """Say whether the object has been deleted and only waits for a controller to let it go."""
    return thing["metadata"].get("deletionTimestamp") is not None


def owner_text(thing: Mapping[str, Any]) -> str:
    """Say in words whose an object is, for who meets it under a name that he wanted."""
    metadata = thing["metadata"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels.get(LABEL_MANAGED_BY) == MANAGED_BY and LABEL_RUN in labels:
        dag, task = notes.get(f"{LABEL_PREFIX}dag-id", ""), notes.get(f"{LABEL_PREFIX}task-id", "")
        place = notes.get(f"{LABEL_PREFIX}installation", "")
        whose = f"task {task!r} of DAG {dag!r}{f' of {place!r}' if place else ''}, " if dag else ""
        return f"{whose}run {labels[LABEL_RUN]}, attempt {labels.get(LABEL_ATTEMPT, '?')}"
    makers = [entry.get("manager") for entry in metadata.get("managedFields") or []]
    who = labels.get(LABEL_MANAGED_BY) or next((maker for maker in makers if maker), None)
    return "somebody else" if who is None else f"somebody else (made by {who!r})"


def submission_notes(manifest: Manifest) -> dict[str, str]:
    """Return the annotations that only a submission can write: its moment, and a veil with a salt of its own."""
    notes = {ANNOTATION_SUBMITTED_AT: datetime.now(UTC).isoformat(timespec="microseconds")}
    veil = Veil.of(value.reveal() for value in manifest.hidden.values())
    if veil.marks:
        notes[ANNOTATION_VEIL] = veil.model_dump_json()
    return notes


def submitted_order(job: Mapping[str, Any]) -> tuple[str, str]:
    """Return what jobs are sorted by to have them in the order of submission."""
    metadata = job["metadata"]
    return metadata.get("creationTimestamp") or "", (metadata.get("annotations") or {}).get(ANNOTATION_SUBMITTED_AT, "")


def stop_notes(by: str) -> dict[str, str]:
    """Return the annotations that a stop writes before it deletes the job."""
    return {ANNOTATION_STOPPED_BY: by, ANNOTATION_STOPPED_AT: datetime.now(UTC).isoformat(timespec="microseconds")}


def stopped_by(job: Mapping[str, Any]) -> str | None:
    """Return who asked for the stop; None when nobody did."""
    found = (job["metadata"].get("annotations") or {}).get(ANNOTATION_STOPPED_BY)
    return None if found is None else str(found)


def check_owner(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Let pass an object of the same attempt only.

    Raises:
        NameTaken: it belongs to somebody else.
    """
    labels, ours = found["metadata"].get("labels") or {}, wanted["metadata"]["labels"]
    if any(labels.get(key) != ours[key] for key in (LABEL_MANAGED_BY, LABEL_RUN, LABEL_ATTEMPT)):
        name, namespace = found["metadata"]["name"], found["metadata"]["namespace"]
        raise NameTaken(
            f"{wanted['kind']} {name} in namespace {namespace} belongs to {owner_text(found)}.",
            hint=OTHER_NAME,
        )


def owner_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference by which an object belongs to a job, and goes with it."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": uid(job),
        "blockOwnerDeletion": False,
    }
