"""What becomes of a run when Airflow itself gives the wait for it up: its timeout, or a trigger that died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from siflow_provider.core.status import Phase
from tests.unit.operators.legs import Maker, deferred, execute, statuses

pytestmark = pytest.mark.runs


def test_run_is_stopped_when_airflow_gives_up_the_wait(make: Maker, backend_home: Path) -> None:
    operator, context = make("sleep 60")
    ref = deferred(operator, context).data.ref
    with pytest.raises(Exception, match="Trigger timeout"):
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context)  # type: ignore[arg-type]
    (status,) = statuses(backend_home)
    assert (status.ref, status.phase) == (ref, Phase.STOPPED)
    assert "Airflow ended the wait" in status.stopped_by


@pytest.mark.parametrize("form", [{"name_prefix": "mine"}, {"spec": {"name_prefix": "mine"}}], ids=["keyword", "spec"])
def test_run_of_a_wait_that_airflow_gave_up_is_looked_for_by_the_names_that_its_form_gives(
    make: Maker, monkeypatch: pytest.MonkeyPatch, form: dict[str, Any]
) -> None:
    """Airflow keeps nothing of what the leg had carried, and a login may not be allowed to search by labels."""
    trails: list[Any] = []

    def stop(*_: object, trail: Any, **__: object) -> None:
        trails.append(trail)

    monkeypatch.setattr("siflow_provider.operators.task.stop_quietly", stop)
    operator, context = make("sleep 60", **form)
    with pytest.raises(Exception, match="Trigger timeout"):
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context)  # type: ignore[arg-type]
    assert [trail.prefix for trail in trails] == ["mine"]


def test_lost_connection_does_not_hide_why_the_wait_ended(make: Maker, backend_home: Path) -> None:
    operator, context = make("true", conn_id="nowhere")
    with pytest.raises(Exception, match="Trigger failure"):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, context)  # type: ignore[arg-type]


def test_run_is_stopped_when_its_task_fails_behind_the_submission(
    make: Maker, backend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An XCom that can't be written, say: without a further try nobody would ever end the run."""

    async def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("siflow_provider.operators.leg._publish", refuse)
    operator, context = make("sleep 60")
    with pytest.raises(OSError, match="No space left"):
        execute(operator, context)
    (status,) = statuses(backend_home)
    assert status.phase is Phase.STOPPED
    assert "No space left" in status.stopped_by
