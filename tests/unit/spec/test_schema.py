"""The JSON Schema agrees with the checker about right forms, and knows what each field is."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped] # its types are another distribution
import pytest
import yaml
from hypothesis import given, settings

from siflow_provider.spec import dump, load
from siflow_provider.spec.schema import json_schema
from tests.drawing import examples
from tests.unit.spec.forms import BASES, PYTORCH, RAY, changed
from tests.unit.spec.strategies import forms

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_schema_is_a_schema_and_plain_json() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_every_field_has_a_text() -> None:
    silent = [
        f"{name}.{field}"
        for name, definition in SCHEMA["$defs"].items()
        for field, schema in definition["properties"].items()
        if not schema.get("description") and field not in {"kind", "type"}
    ]
    assert silent == []


@settings(max_examples=examples(100), deadline=None)
@given(forms)
def test_what_the_checker_takes_and_writes_fits_the_schema(form: dict[str, Any]) -> None:
    VALIDATOR.validate(yaml.safe_load(dump(load(form), reveal=True)))


@pytest.mark.parametrize(
    "changes",
    [
        {"workers": "{{ params.n }}"},
        {"compute": "{{ params.compute }}"},
        {"compute.type": "{{ params.type }}"},
        {"compute.instances": ["{{ params.instance }}"]},
        {"volumes": "{{ params.volumes }}"},
        {"volumes": [{"name": "a", "mount_path": "{{ params.path }}", "read_only": "{{ params.ro }}"}]},
        {"queue_timeout": "{{ params.t }}", "start_timeout": 5, "ssh": "{{ params.ssh }}"},
        {"env": {"A": {"value": "{{ conn.x.password }}", "hidden": True}, "B": 1.5, "C": True}},
        {"alerts": [{"events": ["{{ e }}", {"queued_too_long": "30m"}], "to": "{{ x }}"}]},
    ],
    ids=str,
)
def test_templates_fit_wherever_values_stand(changes: dict[Any, Any]) -> None:
    for base in BASES.values():
        form = changed(base, changes)
        VALIDATOR.validate(form)
        assert load(form, templates=True).kind == base["kind"]


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (PYTORCH, {"wrokers": 1}),
        (PYTORCH, {"workers": -1}),
        (PYTORCH, {"workers": 1.5}),
        (PYTORCH, {"ray": {}}),
        (PYTORCH, {"kind": "Job"}),
        (PYTORCH, {"compute.accept_idle": True}),
        (PYTORCH, {"compute.type": "ondemand"}),
        (PYTORCH, {"priority": "urgent"}),
        (PYTORCH, {"env": {"A": [1]}}),
        (PYTORCH, {"monitoring": {"port": 70000}}),
        (RAY, {"ray": {"heads": 1}}),
    ],
    ids=str,
)
def test_schema_refuses_what_the_checker_refuses(base: dict[str, Any], changes: dict[Any, Any]) -> None:
    assert not VALIDATOR.is_valid(changed(base, changes))
