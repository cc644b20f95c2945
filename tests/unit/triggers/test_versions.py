"""While an upgrade goes on, workers and triggerers of two versions share one database."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.triggers.find import FindRunTrigger
from siflow_provider.triggers.quota import QuotaTrigger
from siflow_provider.triggers.room import RoomTrigger
from siflow_provider.triggers.run import RunTrigger

STORED: dict[str, Any] = {
    "ref": {"backend": "local", "kind": "PyTorchJob", "name": "train-w7rwdss", "uid": "1", "task_uuid": "2"},
    "carried": {"prefix": "train"},
}


def test_triggerer_reads_what_a_newer_worker_stored() -> None:
    newer = {
        **STORED,
        "novelty": 1,
        "ref": {**STORED["ref"], "zone": "b"},
        "carried": {"prefix": "train", "ledger": {"flavor": 1, "novelty": {}}},
    }
    trigger = RunTrigger(**newer)
    assert (trigger.data.ref.name, trigger.data.carried.ledger.flavor) == ("train-w7rwdss", 1)
    assert RunTrigger(**trigger.serialize()[1]).data == trigger.data


@pytest.mark.parametrize("kind", [FindRunTrigger, QuotaTrigger, RoomTrigger])
def test_triggerer_leaves_aside_what_a_newer_worker_adds_to_any_other_wait(kind: Any) -> None:
    stored = kind(deferred_at="2026-01-01T00:00:00+00:00").serialize()
    assert kind(**stored[1], novelty=1).serialize() == stored


def test_data_that_can_not_be_read_fails_its_own_trigger_and_no_other() -> None:
    # Airflow's triggerer survives a TypeError of a trigger that it makes, and no other error
    with pytest.raises(TypeError, match=r"(?s)no data of a RunTrigger.*ref"):
        RunTrigger(carried=STORED["carried"])
