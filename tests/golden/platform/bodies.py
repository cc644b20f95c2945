"""The forms whose create bodies are kept, and how a body is written down."""

from __future__ import annotations

import json
from pathlib import Path

from siflow_provider.backends.platform.render import render_manifest
from siflow_provider.backends.platform.support import unsupported_fields
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import resolve

HERE = Path(__file__).parent
FORMS = sorted((HERE / "forms").glob("*.yaml"))
CONTEXT = RenderContext(identity=Identity(dag_id="dag", task_id="task", run_id="run"), user_name="user")
SETTINGS = Settings(
    backend="platform",
    region="cn-east",
    cluster="alpha",
    body_overrides={"kind": {"type": "rayjob"}, "monitoring": {"metrics": {"port": "{value.port}"}}, "*": {"product": "demo"}},
)  # fmt: skip
"""Spellings as an admin may give them; invented ones."""


def written(form: Path) -> str:
    """Return the body of a form as its file holds it."""
    catalog = load_catalog(HERE / "catalog.yaml")
    task = resolve(load(form, catalog=catalog), catalog, SETTINGS.defaults(), user="user")
    reasons = unsupported_fields(task, SETTINGS)
    assert reasons == [], reasons
    (body,) = render_manifest(task, CONTEXT, SETTINGS).documents
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def golden(form: Path) -> Path:
    """Return where the form's body is kept."""
    return HERE / f"{form.stem}.json"
