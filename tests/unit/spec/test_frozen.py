"""A spec is data: nobody changes one that another holds."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isclass
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import siflow_provider.core
import siflow_provider.spec
from siflow_provider.core.frozen import Frozen
from siflow_provider.spec import Catalog, PyTorchJob, RayJob
from siflow_provider.spec.reading import load
from tests.unit.spec.forms import BASES


def classes(package: Any) -> Iterator[type]:
    """Yield each class that a module of the package defines, once."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for _, found in getmembers(import_module(module.name), isclass):
            if found.__module__ == module.name:
                yield found


MODELS = [found for found in classes(siflow_provider.spec) if issubclass(found, BaseModel)]
STORED = [found for found in classes(siflow_provider.core) if issubclass(found, Frozen)]


@pytest.mark.parametrize("model", [*MODELS, *STORED], ids=lambda model: model.__qualname__)
def test_no_field_of_a_model_can_be_assigned_or_removed(model: type[BaseModel]) -> None:
    one = model.model_construct()
    for name in model.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(one, name, None)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(one, name)


def test_the_models_that_users_hold_are_among_them() -> None:
    assert {PyTorchJob, RayJob, Catalog} <= set(MODELS)
    assert len(MODELS) > 20


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__qualname__)
def test_every_model_of_the_spec_refuses_unknown_keys_and_attributes(model: type[BaseModel]) -> None:
    assert model.model_config.get("extra") == "forbid"
    with pytest.raises(ValidationError, match="frozen"):
        model.model_construct().of_nobody = 1  # type: ignore[attr-defined]  # that is the point


def test_a_loaded_form_is_as_it_was_after_every_attempt_to_change_it() -> None:
    form = load(dict(next(iter(BASES.values()))))
    before = form.model_dump_json()
    for name in type(form).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(form, name, getattr(form, name))
    assert form.model_dump_json() == before
