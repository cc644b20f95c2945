"""A worker that is told to stop before it has submitted anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from siflow_provider.operators import PyTorchJobOperator
from tests.unit.operators.legs import Maker, execute, statuses


def test_kill_before_anything_is_submitted_keeps_it_from_being_submitted(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what runs before: a decorated task's function, the look-up of the connection
    monkeypatch.setattr(PyTorchJobOperator, "prepare_form", lambda operator, _: operator.on_kill())
    with pytest.raises(AirflowException, match="killed"):
        execute(*make("sleep 600"))
    assert statuses(backend_home) == []
