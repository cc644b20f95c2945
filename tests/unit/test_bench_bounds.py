"""A bench whose bound was exceeded fails: a figure that only is printed is read by nobody."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench import parse, platform, start, waiting
from bench.bounds import is_kept
from bench.waiting import End, Result
from bench.waiting_jobs import TooSlow
from bench.waiting_triggers import JOBS, OURS
from tests.unit.test_bench_waiting import HELD

GOOD = Result(HELD, [End(sent=0.0, written=1.0, fired=1.5)], 0, [], [])


@pytest.fixture(autouse=True)
def no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--runs", "1"])


def test_a_bound_is_kept_up_to_its_very_value_and_by_no_missing_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert [is_kept("s", found, 2.0) for found in (1.0, 2.0, 2.01, float("nan"))] == [True, True, False, False]
    assert capsys.readouterr().out.count("exceeded") == 2


@pytest.mark.runs
@pytest.mark.parametrize(("limit", "code"), [(-1.0, 1), (3600.0, 0)])
def test_start_fails_above_its_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: float, code: int
) -> None:
    monkeypatch.setattr(start, "LIMIT", limit)
    assert start.main() == code
    assert ("exceeded" in capsys.readouterr().out) == bool(code)


@pytest.mark.runs
def test_start_fails_when_a_heavy_package_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "LIMIT", 3600.0)
    monkeypatch.setattr(start, "HEAVY", ("json",))
    assert start.main() == 1


def test_parse_fails_above_its_limit_and_when_a_client_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def measured(source: str, runs: int) -> tuple[float, list[str]]:
        return 1.0, [] if source in {parse.BARE, parse.EMPTY.format(count=500)} else loaded

    monkeypatch.setattr(parse, "measure", measured)
    assert parse.main() == 0
    loaded.append("ray")
    assert parse.main() == 1
    loaded.clear()
    monkeypatch.setattr(parse, "most_seconds", lambda empty: empty / 2)
    assert parse.main() == 1


def test_parse_allows_twice_the_time_of_empty_operators_and_two_seconds() -> None:
    assert parse.most_seconds(1.5) == 5.0


def test_platform_fails_when_one_of_its_sizes_asks_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nowhere() -> Iterator[str]:
        yield ""

    async def measured(url: str, count: int, seconds: float) -> bool:
        return is_kept("requests a minute", count, platform.MOST_A_MINUTE)

    monkeypatch.setattr("sys.argv", ["bench"])
    monkeypatch.setattr(platform, "platform", nowhere)
    monkeypatch.setattr(platform, "measure", measured)
    assert platform.main() == 1
    monkeypatch.setattr(platform, "MOST_A_MINUTE", 1e9)
    assert platform.main() == 0


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (GOOD, True),
        (replace(GOOD, ends=[End(sent=0.0, written=9.0, fired=11.1)]), False),
        (replace(GOOD, held=replace(HELD, memory=1025.0)), False),
        (replace(GOOD, missing=1), False),
        (replace(GOOD, ends=[]), False),
    ],
)
def test_waiting_fails_when_ends_come_late_or_never_or_memory_grows(
    monkeypatch: pytest.MonkeyPatch, result: Result, *, kept: bool
) -> None:
    @contextmanager
    def no_plane() -> Iterator[Path]:
        yield Path()

    monkeypatch.setattr(waiting, "control_plane", no_plane)
    monkeypatch.setattr(waiting, "measure", lambda *_: result)
    monkeypatch.setattr("sys.argv", ["bench", "--jobs", "10", "--triggers", OURS])
    assert waiting.main() == (0 if kept else 1)


def test_waiting_fails_when_ours_could_not_be_measured_and_not_for_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> Result:
        raise TooSlow("the cluster is slow")

    @contextmanager
    def no_plane() -> Iterator[Path]:
        yield Path()

    monkeypatch.setattr(waiting, "control_plane", no_plane)
    monkeypatch.setattr(waiting, "measure", gives_up)
    codes = [waiting.measure_all(10, argparse.Namespace(triggers=[each])) for each in (OURS, JOBS)]
    assert codes == [False, True]
