"""Which alerts go out when Airflow tries a task again: each try is a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from siflow_provider.core.outcome import AlertRule
from siflow_provider.core.status import Status
from tests.unit.operators.legs import Maker, execute

pytestmark = pytest.mark.runs


def test_each_airflow_try_tells_of_its_own_run_and_a_leg_that_comes_again_tells_nothing_twice(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, str, int]] = []
    kept: dict[str, Any] = {}
    monkeypatch.setattr("tests.unit.operators.conftest.keep", lambda *given: kept.update(given[-1]))
    numbers = iter((1, 1, 2))  # the second leg of try 1: its first one's worker died before Airflow knew of the end
    try_number = 0

    async def send(_: AlertRule, event: str, status: Status, __: str) -> None:
        told.append((try_number, event, status.ref.attempt))

    monkeypatch.setattr("siflow_provider.triggers.reporter.send_alert", send)
    for number in numbers:
        if number != try_number:
            kept.clear()  # as Airflow does at the start of each try
            try_number = number
        operator, context = make(
            "exit 1",
            try_number=number,
            retries=1,
            deferrable=False,
            fault_tolerance={"max_retries": 1, "retry_on": ["code"]},
            alerts=[{"events": ["retrying", "failed"], "to": ["oncall"]}],
        )
        monkeypatch.setattr("siflow_provider.triggers.store.Store._get", lambda *given: kept.get(given[-1]))
        with pytest.raises(AirflowException, match="exit code 1"):
            execute(operator, context)
    assert told == [(1, "retrying", 1), (1, "failed", 2), (2, "retrying", 1), (2, "failed", 2)]
