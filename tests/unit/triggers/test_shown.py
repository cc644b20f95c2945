"""A triggerer that starts anew knows which lines the task log holds already."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from siflow_provider.triggers.shown import Shown, count_lines, keep_log, marker, read_shown, trigger_logs


def record(event: str) -> str:
    return json.dumps({"timestamp": "2026-11-30T14:00:00Z", "event": event, "level": "info"}) + "\n"


def test_lines_are_counted_per_replica_from_the_marker_on() -> None:
    records = [
        record("[master-0] before any marker"),
        record("following train-abc"),
        record("[master-0] 1"),
        record("[worker-1] 1"),
        record("phase running"),
        record("[master-0] 2"),
    ]
    assert count_lines("train-abc", records).lines == {"master-0": 2, "worker-1": 1}


def test_lines_of_another_attempt_are_not_counted() -> None:
    records = [
        record("following train-abc"),
        record("[master-0] 1"),
        record("following train-abc-2"),
        record("[master-0] 1"),
    ]
    assert count_lines("train-abc", records).lines == {"master-0": 1}
    assert count_lines("train-abc-2", records).lines == {"master-0": 1}


def test_half_written_last_line_is_shown_again() -> None:
    whole = record("[master-0] 2")
    records = [record("following train-abc"), record("[master-0] 1"), whole[: len(whole) // 2]]
    assert count_lines("train-abc", records).lines == {"master-0": 1}
    assert count_lines("train-abc", [*records[:2], whole.rstrip("\n")]).lines == {"master-0": 1}


def test_marker_carries_what_was_shown_before_through_any_number_of_restarts(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text(record("following train-abc") + record("[master-0] 1") * 3)
    once = read_shown("train-abc", [first])
    second.write_text(record(marker(once)) + record("[master-0] 4") + record("[worker-0] 1"))
    assert read_shown("train-abc", [second]).lines == {"master-0": 4, "worker-0": 1}
    assert read_shown("train-abc", [first, second]).lines == {"master-0": 4, "worker-0": 1}


def test_second_stretch_of_the_same_job_counts_for_itself(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text(
        record("following train-abc")
        + record("[master-0] 1")
        + record("following train-abc, part 2")
        + record("[master-0] 2") * 2
    )
    assert read_shown("train-abc, part 2", [log]).lines == {"master-0": 2}


def test_checkpoint_counts_where_files_are_out_of_reach(tmp_path: Path) -> None:
    nothing = read_shown("train-abc", [tmp_path / "elsewhere.log"])
    assert nothing.lines == {}
    kept = Shown.parse({"run": "train-abc", "lines": {"master-0": 7}})
    assert nothing.merged(kept).lines == {"master-0": 7}
    assert nothing.merged(Shown.parse({"run": "train-abc-2", "lines": {"master-0": 7}})).lines == {}
    assert Shown.parse("nonsense") is None


def test_log_files_of_the_try_are_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path))
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=3, try_number=1)
    folder = tmp_path / "dag_id=d" / "run_id=r" / "task_id=t" / "map_index=3"
    folder.mkdir(parents=True)
    for name in ("attempt=1.log", "attempt=1.log.trigger.7.log", "attempt=2.log.trigger.7.log"):
        (folder / name).write_text(name)
    assert [path.name for path in trigger_logs(instance)] == ["attempt=1.log.trigger.7.log"]
    keep_log(instance, "train-abc")
    assert sorted(path.name for path in trigger_logs(instance)) == ["attempt=1.log.trigger.7.log.train-abc.log"]
    keep_log(instance, "train-abc")
    assert len(trigger_logs(instance)) == 1
    (folder / "attempt=1.log.trigger.7.log").write_text("next deferral")
    monkeypatch.setenv("AIRFLOW__LOGGING__REMOTE_LOGGING", "True")
    keep_log(instance, "train-abc-2")
    assert len(trigger_logs(instance)) == 2
    assert (folder / "attempt=1.log.trigger.7.log").exists()
