"""What would be sent, byte for byte; `scripts/golden` writes the files anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.platform.bodies import FORMS, golden, written


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_gives_the_kept_body(form: Path) -> None:
    assert written(form) == golden(form).read_text(encoding="utf-8")


def test_no_hidden_value_is_in_a_body() -> None:
    for form in FORMS:
        assert "not-shown" not in written(form)
