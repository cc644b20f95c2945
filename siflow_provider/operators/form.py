"""From an operator's keyword arguments, its `spec` and its `default_args` to one raw form."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from airflow.sdk.definitions._internal.types import ArgNotSet
from airflow.sdk.definitions.xcom_arg import XComArg
from pydantic import BaseModel

from siflow_provider.errors import SpecError
from siflow_provider.spec.base import is_template
from siflow_provider.spec.document import as_mapping, is_file_name, read_document
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.task import PyTorchJob, RayJob
from siflow_provider.spec.wording import nearest

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = [
    "SOURCES",
    "conceal",
    "form_fields",
    "hide",
    "hide_defaults",
    "is_hidden_form",
    "merge",
    "unfold",
    "unrendered",
]

SOURCES = ("spec", "task")
"""Keywords that take a whole form, so YAML text as well."""
_HIDDEN_KEY = re.compile(r"\bhidden\b\W*:")
_FEW_KEYS = 4
PLACEHOLDER = "{{ known_at_run_time }}"
"""Stands for what only a run knows, when a form is checked before."""


def form_fields(model: type[PyTorchJob] | type[RayJob]) -> tuple[str, ...]:
    """Return the names of the form's fields, in the form's order; `kind` is the operator's class and no field."""
    return tuple(name for name in model.model_fields if name != "kind")


def hide(value: Any) -> Any:
    """Return `value` with each `{value, hidden: true}` in it turned into `Hidden`, at any depth.

    Done as early as a DAG file is read: what is not a `Hidden` goes into the serialized DAG in clear. So one that is
    written wrong is hidden inside as well; the check of the form refuses it later, or never sees it (a mapped task).
    """
    if isinstance(value, Mapping):
        if is_hidden_form(value):
            return Hidden(value["value"])
        meant = _is_meant_hidden(value)
        hidden = {
            key: Hidden(item) if meant and nearest(key, ("value",)) else hide(item) for key, item in value.items()
        }
        # a mapping with a life of its own, such as Airflow's params, stays what it is
        return hidden if type(value) is dict or any(hidden[key] is not item for key, item in value.items()) else value
    if type(value) in (list, tuple):
        return type(value)(hide(item) for item in value)
    return value


def conceal(source: Any) -> Any:
    """Return what a `spec` or a sensor's `task` is given, hidden values wrapped; YAML text becomes its content.

    The text itself would go into the serialized DAG and the rendered view as it is. A template of the whole text stays:
    what it will be is known at run time only.

    Raises:
        SpecError: the text is no YAML; a message never repeats it.
    """
    if type(source) in (list, tuple):  # what is mapped over
        return type(source)(conceal(item) for item in source)
    if not isinstance(source, str) or is_file_name(source):
        return hide(source)
    try:
        return hide(dict(as_mapping(read_document(source).data, what="spec")))
    except SpecError:
        if is_template(source) and not _HIDDEN_KEY.search(source):
            return source
        raise


def hide_defaults(dag: DAG | None) -> None:
    """Wrap hidden values in the DAG's own `default_args`: Airflow serializes all of these with the DAG.

    Whatever their key: a form may stand under `spec` or `task`, and a misspelt key is serialized as well. What holds no
    hidden value stays the same object, since other operators take their arguments from here too.
    """
    defaults = dag.default_args if dag is not None else {}
    for name, value in list(defaults.items()):
        wrapped = _default(value) if name in SOURCES else hide(value)
        if _holds_hidden(wrapped):
            defaults[name] = wrapped


def _default(value: Any) -> Any:
    """Return a default `spec` or `task`; it may be meant for an operator that has another use for the word."""
    if not isinstance(value, str):
        return hide(value)
    return conceal(value) if _HIDDEN_KEY.search(value) else value


def _holds_hidden(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_hidden(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_hidden(item) for item in value)
    return isinstance(value, Hidden)


def is_hidden_form(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Say whether `value` is the form's way to write a hidden value, `hidden` as a rendered text included."""
    return (
        isinstance(value, Mapping)
        and set(value) == {"value", "hidden"}
        and str(value["hidden"]).strip().lower() == "true"
    )


def _is_meant_hidden(value: Mapping[Any, Any]) -> bool:
    """Say whether somebody meant to hide the value, a misspelt flag included; no more than the two keys and a slip."""
    return len(value) <= _FEW_KEYS and any(
        str(item).strip().lower() != "false" for key, item in value.items() if nearest(key, ("hidden",))
    )


def unfold(value: Any) -> Any:
    """Return `value` with models as mappings of the keys that were set, and tuples as lists."""
    if isinstance(value, BaseModel):
        return {name: unfold(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, Mapping):
        return {key: unfold(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [unfold(item) for item in value]
    return value


def unrendered(value: Any) -> Any:
    """Return `value` with a template in place of what only a run knows: other tasks' output, a decorated command."""
    if isinstance(value, (XComArg, ArgNotSet)):
        return PLACEHOLDER
    if isinstance(value, dict):
        return {key: unrendered(item) for key, item in value.items()}
    return [unrendered(item) for item in value] if isinstance(value, list) else value


def merge(kind: str, spec: Mapping[str, Any], own: Mapping[str, Any], *, weak: Collection[str]) -> dict[str, Any]:
    """Return the raw form: the operator's own keywords over its spec over what only `default_args` gave.

    Args:
        kind: the operator's kind; a spec of another kind keeps its own, so that the check can name it.
        spec: the spec's content.
        own: the operator's form fields that are set.
        weak: names among `own` that came from `default_args`.
    """
    below = {name: value for name, value in own.items() if name in weak}
    above = {name: value for name, value in own.items() if name not in weak}
    return {"kind": kind, **below, **spec, **above}
