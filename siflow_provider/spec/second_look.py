"""Validate a form, and where parts of it are wrong, once more without them.

So the rules between fields and the look-ups in the catalog run on all that is right: a wrong value switches off only
what reads it, and a user is told everything at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from siflow_provider.errors import Problem
from siflow_provider.spec.base import Form, Mode
from siflow_provider.spec.containers import structured
from siflow_provider.spec.problems import Loc, problems_of, steps
from siflow_provider.spec.task import Task
from siflow_provider.spec.wrongs import Unknown, Wrongs

__all__ = ["validated"]

_TURNS = 9
"""Each turn takes out what the one before uncovered; the form is nested less deeply than this."""


def validated(data: Mapping[Any, Any], model: type[Task], mode: Mode, errors: list[Problem]) -> Task | None:
    """Return the task and add its errors; with errors, the task has `Unknown` where they are.

    What a wrong value hid (the other fields of a compute without a type) is told too, but nothing twice. A field that
    stays wrong although its wrong parts are taken out is given up as a whole.
    """
    try:
        return model.model_validate(data, context=mode)
    except ValidationError as error:
        wrong = error
    rest: dict[Any, Any] = {name: value for name, value in data.items() if name in model.model_fields}
    told: set[str] = set()
    tried: set[Loc] = set()
    lenient = replace(mode, templates=True, warnings=[])
    for _ in range(_TURNS):
        news = [problem for problem in problems_of(wrong, model) if problem.path not in told]
        told.update(problem.path for problem in news)
        errors.extend(news)
        cuts = [_cut(detail) for detail in wrong.errors(include_url=False, include_input=False)]
        for loc, value in sorted(cuts, key=lambda cut: cut[1] is None):
            if loc and loc[0] in model.model_fields:
                rest[loc[0]] = Unknown() if loc in tried else _edited(rest.get(loc[0]), loc[1:], value)
        tried.update(loc for loc, _ in cuts)
        try:
            return model.model_validate(rest, context=lenient)
        except ValidationError as error:
            wrong = error
    return None


def _cut(detail: ErrorDetails) -> tuple[Loc, Any]:
    """Return where the form is wrong, and what to put there; None for a key that must go."""
    cause = detail.get("ctx", {}).get("error")
    if detail["type"] in {"extra_forbidden", "invalid_key"} or "[key]" in detail["loc"]:
        return steps(detail["loc"]), None
    return steps(detail["loc"]), cause.kept if isinstance(cause, Wrongs) else Unknown()


def _edited(whole: Any, loc: Loc, value: Any) -> Any:
    """Return a copy of `whole` with `value` at a location; None takes the key out."""
    if not loc:
        return value
    part, rest = loc[0], loc[1:]
    whole = structured(whole) if isinstance(whole, str) else whole
    if isinstance(whole, Mapping | Form):
        out = dict(whole)
        if rest or value is not None:
            out[part] = _edited(out.get(part), rest, value)
        else:
            out.pop(part, None)
        return out
    if isinstance(whole, list | tuple) and isinstance(part, int) and part < len(whole):
        return [_edited(item, rest, value) if index == part else item for index, item in enumerate(whole)]
    return Unknown()
