"""From Kubernetes manifests to task forms: `import MANIFEST`. Pure, and without a cluster.

What a manifest holds and a form has a field for is carried; some of the rest goes into `kubernetes.patch`, where a
merge patch can add it whole; everything else is said, with its path. Nothing is guessed: what a form needs and the
manifest does not say becomes a template (`{{ params.memory }}`), and the value of a Secret is never read: the form
takes it from an Airflow Variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.importing_form import Draft, name_prefix
from siflow_provider.backends.kubernetes.importing_own import is_own, without_marks
from siflow_provider.backends.kubernetes.importing_parts import Notes, Part
from siflow_provider.backends.kubernetes.importing_pod import read_marks
from siflow_provider.backends.kubernetes.importing_pytorch import read_pytorchjob
from siflow_provider.backends.kubernetes.importing_ray import read_rayjob
from siflow_provider.backends.kubernetes.names import LABEL_MANAGED_BY, PRIORITY_CLASS, QUEUE_NAME
from siflow_provider.errors import Problem, UsageError
from siflow_provider.spec.reading import KINDS, load

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.importing_env import Beside
    from siflow_provider.backends.kubernetes.importing_parts import Fields
    from siflow_provider.spec.task import Task

__all__ = ["Imported", "import_manifest"]

_BESIDE = ("Secret", "ConfigMap")
_READ = {"PyTorchJob": read_pytorchjob, "RayJob": read_rayjob}
_OF_THE_CLUSTER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Imported:
    """One job of a manifest as a form.

    Attributes:
        name: the job's name in the manifest.
        task: the form; templates stand in it where the manifest says nothing.
        notes: each field that was not carried, or not as it stands, with its path in the job's document.
    """

    name: str
    task: Task
    notes: tuple[Problem, ...]


def import_manifest(documents: Iterable[Any]) -> tuple[list[Imported], tuple[Problem, ...]]:
    """Return a form for each PyTorchJob and RayJob, and what else stands in the file and is in no form.

    Args:
        documents: the YAML documents of one file; Secrets and ConfigMaps beside a job belong to it.

    Raises:
        UsageError: there is no job in it, with the kinds there are; or a form.
        SpecError: a job can't be made a form.

    Example:
        jobs, beside = import_manifest(yaml.safe_load_all(text))
    """
    known = list(_objects(documents))
    jobs = [item for item in known if _kind(item) in KINDS]
    if any(not item.keys() & {"apiVersion", "metadata", "spec"} for item in jobs):
        raise UsageError(
            "the file holds a task form and no manifest; there is nothing to import.",
            hint="Check it with `siflow-provider check`, tidy it with `siflow-provider export`.",
        )
    if not jobs:
        kinds = ", ".join(sorted({_kind(item) or "no kind" for item in known}))
        found = f"it holds {kinds}" if kinds else "it holds no Kubernetes object"
        raise UsageError(f"there is no PyTorchJob or RayJob in the file; {found}.")
    beside: Beside = {(_kind(item), _name(item)): item for item in known if _kind(item) in _BESIDE}
    notes = Notes()
    own = {_name(job) for job in jobs if is_own(job)}
    for item in known:
        if _kind(item) not in KINDS and not _belongs(item, own):
            where = f"{_kind(item) or 'object'}/{_name(item)}"
            notes.say(where, "a form makes no such object; apply it by itself, before the task runs")
    return [_imported(job, beside) for job in jobs], notes.found


def _imported(job: Mapping[str, Any], beside: Beside) -> Imported:
    kind, name, notes = _kind(job), _name(job), Notes()
    draft = Draft(kind, notes, own=is_own(job))
    if draft.own:
        job = without_marks(job, draft, beside)
    document = Part(job, "", notes)
    document.skip("apiVersion", "kind", "status")
    metadata, spec = document.part("metadata"), document.part("spec")
    document.finish()
    _metadata(metadata, draft)
    _READ[kind](spec, draft, beside)
    return Imported(name, load(draft.finished(), templates=True), notes.found)


def _objects(documents: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file, those of a `List` one by one."""
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("items"), list) and "spec" not in document:
            yield from _objects(document["items"])
        elif isinstance(document, Mapping):
            yield document


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("kind") or "")


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    found = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, Mapping) else None
    return str(found or "")


def _belongs(item: Mapping[str, Any], own: set[str]) -> bool:
    """Say whether an object is one that rendering makes with one of our own jobs."""
    return is_own(item) and any(_name(item) in (job, f"{job}-env", f"{job}-files") for job in own)


def _metadata(metadata: Part, draft: Draft) -> None:
    name = metadata.text("name")
    key = "name" if name is not None else "generateName"
    given = (metadata.text("generateName") or "").rstrip("-") if name is None else name
    prefix = given if draft.own else name_prefix(given)
    if prefix:
        draft.set("name_prefix", prefix, metadata.at(key))
    if prefix != given:
        metadata.notes.say(metadata.at(key), f"{given!r} is no name prefix of a form, so it is {prefix!r}")
    metadata.skip(*_OF_THE_CLUSTER, *(["generateName"] if name is not None else []))
    metadata.drop("namespace", "the connection's namespace is used, or the project group's of the catalog")
    fields: Fields = {}
    read_marks(metadata, fields)
    fields.pop(("kubernetes", "annotations", _APPLIED), None)
    for label, why in _TAKEN.items():
        found = fields.pop(("labels", label), None)
        if found is not None:
            metadata.notes.say(found.path, f"{found.value}: {why}")
    draft.fields = fields


_TAKEN = {
    QUEUE_NAME: "the queue is the catalog's for this compute, else the connection's `default_queue`",
    PRIORITY_CLASS: "the catalog says which class a form's `priority` is",
    LABEL_MANAGED_BY: "the provider marks its objects with it",
}
