"""What `--json` prints of a run."""

from __future__ import annotations

from datetime import UTC, datetime

from siflow_provider.cli.output import status_data
from siflow_provider.core.status import Event, JobRef, Phase, Status
from siflow_provider.core.veil import Veil

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_events_are_in_the_json_of_a_run_without_its_hidden_values() -> None:
    ref = JobRef(backend="kubernetes", name="train", kind="PyTorchJob", uid="u1", task_uuid="t1", attempt=1)
    event = Event(NOW, "FailedMount: no such secret canary-7391", warning=True)
    status = Status(ref, Phase.STARTING, events=(event,), veil=Veil.of(["canary-7391"]))
    assert status_data(status, NOW)["events"] == [
        {"time": "2026-11-30T12:00:00+00:00", "text": "FailedMount: no such secret ***", "warning": True}
    ]
