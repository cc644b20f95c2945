"""Python -> YAML -> Python loses nothing, and no wrong form breaks the checker."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from siflow_provider.errors import SpecError
from siflow_provider.spec import check, dump, load, load_catalog
from siflow_provider.spec.diff import diff
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.writing import to_data, to_fields
from tests.drawing import examples
from tests.unit.spec.forms import CATALOG, PYTORCH
from tests.unit.spec.strategies import damaged, forms, junk

TEXT = yaml.safe_dump({**PYTORCH, "env": {"A": 1, "B": {"value": "long-enough", "hidden": True}}})
BITS = [*"{}[]:-'\"*&!|#%@`?\t\n", ": ", "!!int ", "!!bool ", "!!timestamp ", "!!float ", "<<: ", "---\n", "2024-13-01"]
"""What has a meaning in YAML."""


@settings(max_examples=examples(300), deadline=None)
@given(forms)
def test_any_task_survives_yaml_and_data_unchanged(form: dict[str, Any]) -> None:
    task = load(form)
    text = dump(task, reveal=True)
    assert load(text) == task
    assert load(to_data(task, reveal=True)) == task
    assert load(to_fields(task)) == task
    assert load(task) == task
    assert yaml.safe_load(text) == to_data(task, reveal=True)
    assert diff(task, load(text)) == []


@settings(max_examples=examples(100), deadline=None)
@given(forms)
def test_masked_dump_holds_no_hidden_value_and_keeps_everything_else(form: dict[str, Any]) -> None:
    task = load(form)
    hidden = {name for name, value in task.env.items() if isinstance(value, Hidden)}
    masked = to_data(task)
    assert {name for name in hidden if masked["env"][name] != {"value": "***", "hidden": True}} == set()
    shown = to_data(task, reveal=True)
    for name in hidden:
        shown["env"][name]["value"] = "***"
    assert masked == shown
    assert yaml.safe_load(dump(task)) == masked


@settings(max_examples=examples(600), deadline=None)
@given(damaged())
def test_no_form_breaks_the_checker(form: Any) -> None:
    for templates in (False, True):
        checked = check(form, catalog=load_catalog(CATALOG), templates=templates)
        assert (checked.task is None) == bool(checked.errors)
        for problem in (*checked.errors, *checked.warnings):
            assert "top-secret-value" not in str(problem)
        if checked.task is not None:
            assert load(to_fields(checked.task), templates=templates) == checked.task


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(BITS) | st.text(max_size=3)), min_size=1, max_size=4))
def test_no_text_breaks_the_reader(damage: list[tuple[int, str]]) -> None:
    text = TEXT
    for place, bit in damage:
        cut = place % len(text)
        text = text[:cut] + bit + text[cut:]
    checked = check(text, templates=True)
    assert (checked.task is None) == bool(checked.errors)


@settings(max_examples=examples(200), deadline=None)
@given(junk)
def test_anything_but_a_form_is_a_spec_error(source: Any) -> None:
    with pytest.raises(SpecError) as caught:
        load(source)
    assert caught.value.problems
    assert "top-secret-value" not in str(caught.value)


@settings(max_examples=examples(300), deadline=None)
@given(junk)
def test_no_catalog_breaks_the_reader(source: Any) -> None:
    for place in (
        "clusters",
        "instances",
        "queues",
        "images",
        "volumes",
        "datasets",
        "labels",
        "persistent_env",
        "alerts",
    ):
        with contextlib.suppress(SpecError):
            assert load_catalog({**CATALOG, place: source}).model_fields_set
