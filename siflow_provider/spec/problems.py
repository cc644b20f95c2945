"""Turn pydantic's errors into problems that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from siflow_provider.errors import Problem
from siflow_provider.spec.document import join
from siflow_provider.spec.wording import kind_of, quote, suggest
from siflow_provider.spec.wrongs import Wrongs

__all__ = ["field_names", "path_of", "problems_of", "steps"]

Loc = tuple[str | int, ...]
_TAG = "\0"
_SHAPES = {
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
}


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return one problem per wrong field, in the order of the form; no value of a mapping is ever quoted."""
    out: list[Problem] = []
    for detail in error.errors(include_url=False):
        loc = (*detail["loc"], "[key]") if detail["type"] == "invalid_key" else detail["loc"]
        path = path_of(loc)
        out.extend(
            Problem(f"{path}{rest}" if path else rest.lstrip("."), text) for rest, text in _messages(detail, model)
        )
    return list(dict.fromkeys(out))


def path_of(loc: Loc) -> str:
    """Return a location as users write paths: `volumes[1].mount_path`."""
    parts = list(steps(loc))
    if parts and isinstance(parts[-1], int) and "[key]" in loc:
        parts[-1] = str(parts[-1])
    path = ""
    for part in parts:
        path = join(path, part)
    return path


def steps(loc: Loc) -> Loc:
    """Return a location without pydantic's own steps."""
    return tuple(part for part in loc if not (isinstance(part, str) and (part.startswith(_TAG) or part == "[key]")))


def _messages(detail: ErrorDetails, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    kind, value = detail["type"], detail.get("input")
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, Wrongs):
        yield from cause.found
    elif cause is not None:
        yield "", str(cause)
    elif kind == "missing":
        yield "", "is required"
    elif kind == "extra_forbidden":
        yield "", _unknown_key(detail["loc"], model)
    elif kind == "invalid_key":
        yield "", "a key must be text; write it in quotes"
    elif kind in _SHAPES:
        wrap = f"; write [{value}]" if _SHAPES[kind] == "a list" and _short(value) else ""
        yield "", f"must be {_SHAPES[kind]}, not {kind_of(value)}{wrap}"
    elif kind == "literal_error":
        yield "", f"{quote(value)} is not {detail['ctx']['expected']}"
    else:
        yield "", f"{quote(value)} is wrong: {detail['msg']}"


def _short(value: Any) -> bool:
    return isinstance(value, str) and value.replace("-", "").replace("_", "").replace(".", "").isalnum()


def _unknown_key(loc: Loc, model: type[BaseModel]) -> str:
    from siflow_provider.spec.unknown_keys import explain

    *parents, key = loc
    names = field_names(model, tuple(parents))
    special = explain(str(key), steps(tuple(parents)), tuple(parents), model)
    return special or f"unknown key; {suggest(key, names, what='known here')}"


def field_names(model: type[BaseModel], loc: Loc) -> list[str]:
    """Return the names that are known at a location."""
    current: list[type[BaseModel]] = [model]
    for part in loc:
        if isinstance(part, int):
            continue
        if part.startswith(_TAG):
            tagged = [one for one in current if tag_of(one) == part[1:]]
            current = tagged or current
            continue
        current = [inner for one in current if part in one.model_fields for inner in models_in(one.model_fields[part])]
    return [name for one in current for name in one.model_fields]


def tag_of(model: type[BaseModel]) -> str:
    """Return the tag under which a member of a union stands: compute's type, or `in-place`, `catalog`, `length`."""
    kind = model.model_fields.get("type")
    if kind is not None and getattr(kind.annotation, "__args__", None):
        return str(kind.annotation.__args__[0])  # type: ignore[union-attr] # a Literal has arguments
    return {"InPlaceInstance": "in-place", "CatalogImage": "catalog", "QueuedTooLong": "length"}.get(
        model.__name__, "undecided"
    )


def models_in(field: Any) -> list[type[BaseModel]]:
    """Return every model that a field's annotation names, however deep in lists, mappings and unions."""
    found: list[type[BaseModel]] = []
    waiting = [getattr(field, "annotation", field)]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, type) and issubclass(one, BaseModel):
            found.append(one)
        waiting.extend(getattr(one, "__args__", ()))
    return found
