"""The pure parts: names, moments, overrides, phases, pieces of lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.platform.logs import LogReader, Reading, lines_of
from siflow_provider.backends.platform.mark import Mark, mark_of, read_mark, run_name
from siflow_provider.backends.platform.overrides import check_overrides, filled
from siflow_provider.backends.platform.state import failed_first, phase_of, replicas_of, status_of
from siflow_provider.backends.platform.wire import Brief, Pod, read_moment
from siflow_provider.core.identity import Identity, default_prefix
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.status import Phase
from siflow_provider.core.veil import Veil
from siflow_provider.errors import UsageError
from tests.unit.backends.platform.tasks import context, task

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(dag=st.text(max_size=60), name=st.text(max_size=60), attempt=st.integers(1, 99))
def test_every_name_fits_the_platforms_rule_and_holds_the_runs_own_ending(dag: str, name: str, attempt: int) -> None:
    identity = Identity(dag_id=dag, task_id=name, run_id="r", attempt=attempt)
    made = run_name(default_prefix(dag, name), identity)
    assert len(made) <= 35
    assert identity.suffix in made
    assert made.strip("-") == made
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_mark_is_read_back_from_a_tasks_environment() -> None:
    mark = mark_of(task(workers=2, timezone="Asia/Shanghai"), context())
    row = {"uuid": "u", "taskEnv": [{"envKey": "SIFLOW_IDENTITY", "envValue": mark.text(), "hide": False}]}
    assert read_mark(Brief.model_validate(row)) == mark
    assert read_mark(Brief.model_validate({"uuid": "u"})) is None
    broken = {"uuid": "u", "taskEnv": [{"envKey": "SIFLOW_IDENTITY", "envValue": "{"}]}
    assert read_mark(Brief.model_validate(broken)) is None


@pytest.mark.parametrize(
    "text",
    ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "2026-01-02T11:04:05+08:00", 1767323045, "1767323045000"],
)
def test_moments_are_read_in_every_likely_form(text: Any) -> None:
    assert read_moment(text) == WHEN


@pytest.mark.parametrize("text", [None, "", 0, "soon", "0001-01-01T00:00:00Z", True, "9" * 40])
def test_what_is_no_moment_is_none(text: Any) -> None:
    assert read_moment(text) is None


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("Queueing", Phase.QUEUED), ("pending", Phase.QUEUED), ("PARTIALPENDING", Phase.STARTING),
        ("Running", Phase.RUNNING), ("Stopping", Phase.RUNNING), ("Succeeded", Phase.SUCCEEDED),
        ("Failed", Phase.FAILED), ("Error", Phase.FAILED), ("Stopped", Phase.STOPPED), ("Unknown", Phase.UNKNOWN),
        ("", Phase.UNKNOWN), ("Evaporated", Phase.UNKNOWN),
    ],
)  # fmt: skip
def test_status_words_are_phases_and_new_ones_end_nothing(word: str, phase: Phase) -> None:
    assert phase_of(word) is phase


def test_the_replica_that_failed_by_itself_is_named_before_those_that_were_killed_for_it() -> None:
    pods = [
        Pod(name="t-master-0", exit_code=143, update_time="2026-01-02T03:04:00Z"),
        Pod(name="t-worker-0", exit_code=3, update_time="2026-01-02T03:04:05Z"),
        Pod(name="t-worker-1", exit_code=137, update_time="2026-01-02T03:04:06Z"),
    ]
    replicas = replicas_of(pods, Mark(run="r", name="t"), Phase.FAILED)
    assert list(replicas) == ["master-0", "worker-0", "worker-1"]
    assert failed_first(replicas) == "worker-0"


def test_replicas_of_a_stopped_run_were_stopped_and_did_not_fail() -> None:
    pods = [Pod(name="t-master-0", exit_code=143), Pod(name="t-worker-0", exit_code=3)]
    replicas = replicas_of(pods, Mark(run="r", name="t"), Phase.STOPPED)
    assert [one.phase for one, _ in replicas.values()] == [Phase.STOPPED, Phase.FAILED]


def test_who_stopped_a_run_is_told_once() -> None:
    task = Brief(uuid="u", status="Stopped", status_msg="Stopped by mia")
    ref = Mark(run="r", name="t").ref("u")
    assert status_of(ref, task, Mark(run="r", name="t"), pods=(), now=WHEN).stopped_by == "mia"


def test_pods_whose_names_tell_nothing_are_counted() -> None:
    replicas = replicas_of([Pod(name="x1"), Pod(name="x2")], Mark(run="r", name="t"), Phase.RUNNING)
    assert [(one.role, one.rank) for one, _ in replicas.values()] == [("master", 0), ("worker", 1)]


def test_a_placeholder_keeps_the_values_own_type() -> None:
    patch = {"enhancements": {"pull": {"threshold": "{value}"}, "text": "at {value}", "list": ["{value}", 1]}}
    assert filled(patch, 0) == {"enhancements": {"pull": {"threshold": 0}, "text": "at 0", "list": [0, 1]}}


@pytest.mark.parametrize(
    ("body", "api", "words"),
    [
        ({"shm": {}}, {}, "'shm'"),
        ({"ssh": True}, {}, "must be a mapping"),
        ({}, {"events": {}}, "'events'"),
        ({}, {"logs": {"params": {}}}, "path"),
        ({}, {"nodes": {"path": "/nodes", "instance": "name"}}, "`free`"),
        ({}, {"logs": {"path": "/l/{uuid}", "params": {"pod": "{pods}"}}}, "{pods}; did you mean 'pod'"),
        ({}, {"logs": {"path": "/l/{uid}"}}, "logs.path`.*{uid}; did you mean 'uuid'"),
        ({}, {"logs": {"path": "/l/{0}"}}, "placeholder .0.; known ones: uuid, pod, limit, offset, order"),
        ({}, {"logs": {"path": "/l/{uuid"}}, "logs.path` can't be read: .*expected '}'"),
        ({}, {"logs": {"path": "/l/{uuid.hex}"}}, "{uuid.hex}"),
        ({}, {"nodes": {"path": "/n/{poll}", "instance": "name", "free": "n"}}, "{poll}; did you mean 'pool'"),
    ],
)
def test_an_override_that_would_do_nothing_is_refused(body: dict[str, Any], api: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_overrides(body, api)


def test_braces_that_are_no_placeholders_are_written_twice() -> None:
    check_overrides({}, {"logs": {"path": "/l/{uuid}", "params": {"query": "{{job={pod}}}", "limit": 5}}})


@given(st.text(max_size=50_000).filter(lambda text: "\n" not in text and "\r" not in text))
def test_pieces_of_a_line_are_the_line_and_reading_goes_on_behind_any_of_them(text: str) -> None:
    lines = lines_of("master-0", {"content": text}, 4, 0, Veil())
    assert "".join(line.text for line in lines) == text.encode("utf-8", "replace").decode()
    assert all(len(line.text.encode()) <= MAX_LINE_BYTES for line in lines)
    for index, line in enumerate(lines[:-1]):
        reading = Reading.at("master-0", "", line.position)
        assert lines_of("master-0", {"content": text}, reading.entry, reading.byte, Veil()) == lines[index + 1 :]
    assert lines[-1].position == "5.0"


def test_an_entry_is_cut_before_a_hidden_value_and_read_on_from_there() -> None:
    text = f"{'x' * (MAX_LINE_BYTES - 5)}canary-7391 after it"
    veil = Veil.of(["canary-7391"])
    first, last = lines_of("master-0", {"content": text}, 4, 0, veil)
    assert [veil.over(line.text) for line in (first, last)] == ["x" * (MAX_LINE_BYTES - 5), "*** after it"]
    reading = Reading.at("master-0", "", first.position)
    assert lines_of("master-0", {"content": text}, reading.entry, reading.byte, veil) == [last]


class Answers:
    """A client that keeps what it is asked, and has ten entries, or what it is told to have."""

    def __init__(self, logs: Any = None) -> None:
        self.asked: list[dict[str, str]] = []
        self._logs = logs

    async def get(self, path: str, params: dict[str, str]) -> Any:
        from siflow_provider.backends.platform.answers import Answer

        self.asked.append({"path": path, **params})
        if self._logs is not None:
            return Answer({"logs": self._logs})
        entries = [{"content": str(number)} for number in range(10)]
        return Answer({"logs": entries[: int(params["limit"])] or None})


async def test_a_query_without_an_offset_reads_again_from_the_beginning() -> None:
    client = Answers()
    spelling = {"path": "/logs/{uuid}", "params": {"limit": "{limit}", "order": "{order}"}}
    reader = LogReader(client, spelling)  # type: ignore[arg-type] # only `get` is used
    assert [entry["content"] for entry in await reader.entries("u", "", 7)] == ["7", "8", "9"]
    assert client.asked == [{"path": "/logs/u", "limit": "2007", "order": "asc"}]
    assert not reader.by_pod


@pytest.mark.parametrize("logs", [True, 7, "text", {"content": "text"}, [1, None]])
async def test_an_answer_of_another_shape_holds_no_lines(logs: Any) -> None:
    reader = LogReader(Answers(logs), {"path": "/logs/{uuid}"})  # type: ignore[arg-type] # only `get` is used
    assert await reader.entries("u", "", 0) == []
