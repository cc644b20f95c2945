"""The form's JSON Schema, for editors that complete and check YAML.

It comes from the models; the texts are the docstrings of their attributes, read only when a schema is asked for
(reading them at import would cost every DAG file a second look at the sources).
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from siflow_provider.spec.base import Form
from siflow_provider.spec.problems import models_in
from siflow_provider.spec.task import PyTorchJob, RayJob

__all__ = ["json_schema"]

TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%|\{#", "description": "An Airflow template."}
_KINDS: tuple[type[Form], ...] = (PyTorchJob, RayJob)
_SHOWN = ("title", "description", "default")


def json_schema() -> dict[str, Any]:
    """Return the schema of a form (draft 2020-12): both kinds, told apart by `kind`, templates where values stand."""
    _, schema = models_json_schema([(kind, "validation") for kind in _KINDS], title="SiFlow training task")
    definitions: dict[str, Any] = schema["$defs"]
    texts = _texts()
    for name, definition in definitions.items():
        definition.pop("title", None)
        for field, value in definition.get("properties", {}).items():
            definition["properties"][field] = _property(name, field, value, texts.get((name, field)))
    definitions.pop("Undecided", None)
    for kind in _KINDS:
        one = definitions[kind.__name__]
        one["required"] = ["kind", *one.get("required", [])]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": schema["title"],
        "type": "object",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in _KINDS],
        "$defs": definitions,
    }


def _property(model: str, field: str, schema: dict[str, Any], text: str | None) -> dict[str, Any]:
    if field == "kind":
        out = {name: value for name, value in schema.items() if name not in {"title", "default"}}
    else:
        out = _with_templates(schema)
    out.pop("title", None)
    if len(out.get("anyOf", ())) == 1:
        out.update(out.pop("anyOf")[0])
    if out.get("default") is None or model == "Undecided":
        out.pop("default", None)
    if text is not None:
        out["description"] = text
    return out


def _with_templates(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with a template allowed in its place and in the place of everything inside it."""
    inner = {name: value for name, value in schema.items() if name not in _SHOWN}
    shown = {name: schema[name] for name in _SHOWN if name in schema}
    for name in ("items", "additionalProperties"):
        if isinstance(inner.get(name), dict):
            inner[name] = _with_templates(inner[name])
    union = inner.pop("oneOf", None) or inner.pop("anyOf", None)
    flat = [inner] if union is None else [part for one in union for part in _with_templates(one)["anyOf"]]
    flat = [one for one in flat if one != TEMPLATE and one.get("$ref") != "#/$defs/Undecided"]
    unique = [one for index, one in enumerate(flat) if one not in flat[:index]]
    free = {"type": "string"} in unique
    return {**shown, "anyOf": unique if free else [*unique, TEMPLATE]}


def _texts() -> dict[tuple[str, str], str]:
    """Return (model, field) -> the docstring of the attribute, wherever in the model's ancestry it stands."""
    out: dict[tuple[str, str], str] = {}
    for model in _all_models():
        for ancestor in reversed(model.__mro__):
            for field, text in _module_texts(ancestor.__module__).get(ancestor.__name__, {}).items():
                out[model.__name__, field] = text
    return out


def _all_models() -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = list(_KINDS)
    for model in found:
        for field in model.model_fields.values():
            found.extend(inner for inner in models_in(field) if inner not in found)
    return found


@lru_cache(maxsize=64)
def _module_texts(module: str) -> dict[str, dict[str, str]]:
    """Return class -> attribute -> the text that follows it; nothing when the sources are not at hand."""
    if not module.startswith(__package__):
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    return {node.name: _attribute_texts(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _attribute_texts(node: ast.ClassDef) -> dict[str, str]:
    out = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            out[statement.target.id] = inspect.cleandoc(str(following.value.value))
    return out
