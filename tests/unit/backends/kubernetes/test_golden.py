"""Every example and every field, as recorded; a change is seen by whoever reads the difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.golden.manifests import (
    CATALOG,
    FORMS,
    GOLDEN,
    TRAINJOB_FORMS,
    golden,
    golden_trainjob,
    rendered,
    rendered_trainjob,
    written,
)

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


@pytest.mark.parametrize("form", TRAINJOB_FORMS, ids=lambda path: path.stem)
def test_trainjob_renders_as_recorded_and_the_same_twice(form: Path) -> None:
    text = written(rendered_trainjob(form))
    assert golden_trainjob(form).exists(), f"{golden_trainjob(form).name} is missing; {WRITE}"
    assert text == golden_trainjob(form).read_text(encoding="utf-8"), f"differs; {WRITE}"
    assert text == written(rendered_trainjob(form))


@pytest.mark.parametrize("name", ["everything-ray", "pytorch-distributed"])
def test_command_prints_what_is_recorded(name: str) -> None:
    form = next(form for form in FORMS if form.stem == name)
    argv = [sys.executable, "-m", "siflow_provider.cli.main", "render", str(form), "--catalog", str(CATALOG)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert list(yaml.safe_load_all(done.stdout)) == list(yaml.safe_load_all(golden(form).read_text(encoding="utf-8")))


def test_no_recorded_file_is_left_over() -> None:
    assert set(GOLDEN.glob("*.yaml")) == {golden(form) for form in FORMS}
    assert set((GOLDEN / "trainjob").iterdir()) == {golden_trainjob(form) for form in TRAINJOB_FORMS}


def test_no_hidden_value_is_recorded() -> None:
    recorded = [*GOLDEN.glob("*.yaml"), *(GOLDEN / "trainjob").glob("*.yaml")]
    assert [path.name for path in recorded if "not-for-eyes" in path.read_text(encoding="utf-8")] == []
