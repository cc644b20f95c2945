"""The forms whose manifests are kept, and how a manifest is written down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from siflow_provider.backends.kubernetes.cluster.features import TrainingApi
from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import Manifest, RenderContext
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.reading import Source, load
from siflow_provider.spec.resolve import resolve

GOLDEN = Path(__file__).parent
SPECS = GOLDEN.parents[1] / "example_dags" / "specs"
CATALOG = SPECS / "catalog.yaml"
FORMS = sorted([*(path for path in SPECS.glob("*.yaml") if path != CATALOG), *(GOLDEN / "forms").glob("*.yaml")])
TRAINJOB_FORMS = [form for form in FORMS if form.stem in {"everything-pytorch", "minimal-pytorch", "templates"}]
"""Those of kind PyTorchJob whose TrainJobs are kept too."""
_PYTORCHJOBS_PATCH = "patch: {spec: {runPolicy: {ttlSecondsAfterFinished: 3600}}}"
_TRAINJOBS_PATCH = "patch: {metadata: {annotations: {example.com/shift: night}}}"
CONTEXT = RenderContext(identity=Identity(dag_id="dag", task_id="task", run_id="run"), user_name="user")


class _Dumper(yaml.SafeDumper):
    """Writes scripts as literal blocks, so that a difference can be read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(str, _text)


def rendered(form: Path) -> Manifest:
    """Render one form as for a cluster with a queue, templates left as they are."""
    return rendered_form(form, form)


def rendered_trainjob(form: Path) -> Manifest:
    """Render one form of kind PyTorchJob as for a cluster with Kubeflow Trainer; a patch of a PyTorchJob is no such."""
    text = form.read_text(encoding="utf-8").replace(_PYTORCHJOBS_PATCH, _TRAINJOBS_PATCH)
    return rendered_form(form, text, "TrainJob")


def rendered_form(form: Path, source: Source, training_api: TrainingApi = "PyTorchJob") -> Manifest:
    """Render another content of the form; only a form with a project group takes names from the catalog."""
    catalog = load_catalog(CATALOG) if "\nproject_group:" in form.read_text(encoding="utf-8") else None
    task = resolve(load(source, catalog=catalog, templates=True), catalog, user="user", templates=True)
    return render(task, CONTEXT, training_api)


def written(manifest: Manifest) -> str:
    """Return the manifest as the golden file holds it."""
    documents: list[Mapping[str, Any]] = [dict(document) for document in manifest.documents]
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def golden(form: Path) -> Path:
    """Return where the form's manifest is kept."""
    return GOLDEN / f"{form.stem}.yaml"


def golden_trainjob(form: Path) -> Path:
    """Return where the form's manifest for Kubeflow Trainer is kept."""
    return GOLDEN / "trainjob" / f"{form.stem}.yaml"
