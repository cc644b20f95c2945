"""What type checkers and IDEs know of a task's keywords is what the form takes: no field more, none less."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from airflow.sdk import XComArg
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from siflow_provider.operators import PyTorchJobOperator, RayJobOperator, arguments
from siflow_provider.operators.form import form_fields
from siflow_provider.spec import PyTorchJob, RayJob, compute, policy, ray, storage, task
from siflow_provider.spec.base import Form
from siflow_provider.spec.problems import models_in

MODELS: dict[str, tuple[type[Form], ...]] = {
    "CatalogImageArgs": (task.CatalogImage,),
    "InstanceArgs": (compute.InPlaceInstance,),
    "NodeRuleArgs": (compute.NodeRule,),
    "ComputeArgs": (compute.Reserved, compute.OnDemand, compute.Spot, compute.Idle, compute.Undecided),
    "VolumeArgs": (storage.VolumeMount,),
    "DatasetArgs": (storage.DatasetMount,),
    "ModelArgs": (storage.ModelMount,),
    "FaultToleranceArgs": (policy.FaultTolerance,),
    "MonitoringArgs": (policy.Monitoring,),
    "QueuedTooLongArgs": (policy.QueuedTooLong,),
    "AlertArgs": (policy.Alert,),
    "KubernetesArgs": (policy.KubernetesOptions,),
    "HeadArgs": (ray.Head,),
    "SharedStorageArgs": (ray.SharedStorage,),
    "DebugArgs": (ray.Debug,),
    "AutoscalingArgs": (ray.Autoscaling,),
    "RayArgs": (ray.RaySection,),
}
OTHER = {"AirflowArguments", "HiddenArgs"}
"""Those without a model: Airflow's own keywords, and a value that the form keeps as a `Hidden`."""
SAMPLES: dict[type, Any] = {bool: True, int: 5, float: 0.5, timedelta: timedelta(minutes=1)}
NUMBERS: dict[type, tuple[type, ...]] = {bool: (bool, int, float), int: (int, float)}
"""What a type checker takes for one another: `float` stands for whole numbers as well."""


def keywords_of(name: str) -> dict[str, Any]:
    """Return the keys of a TypedDict and their types."""
    return get_type_hints(getattr(arguments, name), include_extras=True)


def required(name: str) -> set[str]:
    of, hints = getattr(arguments, name), keywords_of(name)
    return set(hints) if of.__total__ else {key for key, hint in hints.items() if get_origin(hint) is Required}


def variants(hint: Any) -> Iterator[Any]:
    """Yield what a keyword may be, unions and `Required` opened."""
    if get_origin(hint) in (Union, UnionType, Required):
        for inner in get_args(hint):
            yield from variants(inner)
    else:
        yield hint


def takes(hint: Any, kind: type) -> bool:
    """Say whether a type checker lets a value of `kind` through; a text is a sequence as well."""
    for one in variants(hint):
        if one in NUMBERS.get(kind, (kind,)) or one is Any:
            return True
        if kind is str and "Sequence" in str(get_origin(one)) and takes(get_args(one)[0], str):
            return True
    return False


def places(hint: Any) -> Iterator[Any]:
    """Yield where a value stands: the keyword itself, and the items of lists and mappings."""
    yield hint
    for one in variants(hint):
        if get_origin(one) is not None:
            yield from places(get_args(one)[-1])


def accepted(field: FieldInfo) -> set[type]:
    """Return the types of which the form takes a value in this field."""
    whole: Any = Annotated[field.annotation, "", *field.metadata]
    adapter = TypeAdapter(whole)
    return {kind for kind, sample in SAMPLES.items() if takes_value(adapter.validate_python, sample)}


def takes_value(check: Callable[[Any], Any], sample: Any) -> bool:
    try:
        check(sample)
    except ValidationError:
        return False
    return True


def refused(hints: dict[str, Any], model: type[Form]) -> set[str]:
    """Return each field with a type of value that the form takes there and a type checker does not."""
    fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
    unknown = {  # a template or another task's output may stand for any value
        f"{name}: {kind.__name__}"
        for name in fields
        for place in places(hints[name])
        for kind in (str, XComArg)
        if not takes(place, kind)
    }
    return unknown | {
        f"{name}: {kind.__name__}"
        for name, field in fields.items()
        for kind in accepted(field)
        if not takes(hints[name], kind)
    }


def test_every_part_of_the_form_has_typed_keywords() -> None:
    parts: list[Any] = [PyTorchJob, RayJob]
    for part in parts:
        inside = (inner for field in part.model_fields.values() for inner in models_in(field))
        parts.extend(inner for inner in inside if inner not in parts)
    assert set(parts) - {PyTorchJob, RayJob} == {model for models in MODELS.values() for model in models}
    own = {name for name, value in vars(arguments).items() if getattr(value, "__module__", "") == arguments.__name__}
    assert {name for name in own if is_typeddict(getattr(arguments, name))} == {*MODELS, *OTHER}


@pytest.mark.parametrize("name", MODELS)
def test_typed_keywords_are_the_forms_fields_and_take_what_the_form_takes(name: str) -> None:
    hints, models = keywords_of(name), MODELS[name]
    assert set(hints) == {field for model in models for field in model.model_fields}
    always = [{key for key, field in model.model_fields.items() if field.is_required()} for model in models]
    assert required(name) == set.intersection(*always)
    assert set().union(*(refused(hints, model) for model in models)) == set()


@pytest.mark.parametrize(("operator", "model"), [(PyTorchJobOperator, PyTorchJob), (RayJobOperator, RayJob)])
def test_operators_keywords_take_what_the_form_takes(operator: type[Any], model: type[PyTorchJob | RayJob]) -> None:
    own = inspect.signature(operator.__init__).parameters
    hints = {name: hint for name, hint in get_type_hints(operator.__init__).items() if name in own}
    assert set(form_fields(model)) <= set(hints)
    assert refused(hints, model) == set()
