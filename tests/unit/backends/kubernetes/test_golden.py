"""Every example and every field, as recorded; a change is seen by whoever reads the difference."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.golden.manifests import FORMS, GOLDEN, golden, rendered, written

WRITE = "scripts/golden writes it"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_example_renders_as_recorded(form: Path) -> None:
    assert golden(form).exists(), f"{golden(form).name} is missing; {WRITE}"
    assert written(rendered(form)) == golden(form).read_text(encoding="utf-8"), f"differs; {WRITE}"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_example_renders_the_same_twice(form: Path) -> None:
    assert written(rendered(form)) == written(rendered(form))


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_recorded_file_says_the_same_as_the_manifest(form: Path) -> None:
    assert list(yaml.safe_load_all(golden(form).read_text(encoding="utf-8"))) == list(rendered(form).documents)


def test_no_recorded_file_is_left_over() -> None:
    assert set(GOLDEN.glob("*.yaml")) == {golden(form) for form in FORMS}


def test_no_hidden_value_is_recorded() -> None:
    assert [path.name for path in GOLDEN.glob("*.yaml") if "not-for-eyes" in path.read_text(encoding="utf-8")] == []
