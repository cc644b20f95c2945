"""Short words for what the tests import."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.importing import Imported, import_manifest
from siflow_provider.spec.reading import check
from siflow_provider.spec.writing import dump, to_data
from tests.golden.manifests import FORMS
from tests.unit.backends.kubernetes.manifests import pod

NO_CATALOG = [form for form in FORMS if "\nproject_group:" not in form.read_text(encoding="utf-8")]


def imported(*documents: Any) -> Imported:
    """Import one job and check that the form has nothing against it."""
    jobs, _ = import_manifest(documents)
    assert len(jobs) == 1
    assert check(dump(jobs[0].task, reveal=True), templates=True).errors == ()
    return jobs[0]


def form_of(*documents: Any) -> dict[str, Any]:
    return to_data(imported(*documents).task, reveal=True)


def notes_of(*documents: Any) -> dict[str, str]:
    return {note.path: note.message for note in imported(*documents).notes}


def pytorch(*, worker: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a PyTorchJob whose pods have these fields in their container."""
    replicas = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": pod(**fields)}}
    if worker is not None:
        replicas["Worker"] = {"replicas": 2, "restartPolicy": "Never", "template": pod(**worker)}
    spec = {"pytorchReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"}, "spec": spec}
