"""From launch to outcome, with real runs: what a user of an operator or of the CLI gets."""

from __future__ import annotations

import pytest

from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.protocol import TrainingBackend
from tests.contract.life import (
    Told,
    run_to_end,
    texts,
)
from tests.contract.world import World


async def test_a_run_succeeds_with_its_logs_and_its_result(world: World, backend: TrainingBackend) -> None:
    told = Told()
    task = world.task('echo "hello from $RANK"; echo "{\\"acc\\": 0.9, \\"rank\\": $RANK}" > "$SIFLOW_RESULTS"')
    ended, refs = await run_to_end(backend, task, told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results == {"acc": 0.9, "rank": 0}
    assert texts(told.lines, "master-0")[0] == "hello from 0"
    assert told.cursor == ended.outcome.cursor
    assert told.warnings == backend.warnings(task)  # nothing frightens where nothing is wrong
    summary = ended.summary()
    assert (summary["name"], summary["phase"], summary["attempts"]) == (refs[0].name, "succeeded", 1)
    assert summary["running_seconds"] > 0


@pytest.mark.parametrize(
    ("write", "result"),
    [
        ("echo '::siflow-result:: [1, 2]'", [1, 2]),
        ("printf '{\\n  \"a\":\\n 1}\\n' > $SIFLOW_RESULTS", {"a": 1}),
        ("printf 'no line end before'; echo 7 > $SIFLOW_RESULTS", 7),
        ("{ printf '\"'; printf 'é%0.s' $(seq 30000); printf '\"'; } > $SIFLOW_RESULTS", "é" * 30000),
        ("true", None),
    ],
    ids=["line", "file", "torn line", "long", "none"],
)
async def test_results_come_whatever_way_they_are_written(
    world: World, backend: TrainingBackend, write: str, result: object
) -> None:
    ended, _ = await run_to_end(backend, world.task(write), Told())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results == result


@pytest.mark.parametrize(
    ("write", "word"),
    [
        ("echo 'not json' > $SIFLOW_RESULTS", "not JSON"),
        ("head -c 2000000 /dev/zero | tr '\\0' 1 > $SIFLOW_RESULTS", "256 KiB"),
        ("printf '\\xff\\xfe' > $SIFLOW_RESULTS", "not JSON"),
        ("mkdir $SIFLOW_RESULTS", "results file"),
    ],
    ids=["no JSON", "too long", "no text", "no file"],
)
async def test_a_bad_result_is_told_and_fails_nothing(
    world: World, backend: TrainingBackend, write: str, word: str
) -> None:
    told = Told()
    ended, _ = await run_to_end(backend, world.task(write), told)
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED
    assert ended.outcome.results is None
    assert [warning for warning in told.warnings if word in warning], told.warnings


async def test_a_failing_run_still_reports_its_result(world: World, backend: TrainingBackend) -> None:
    ended, _ = await run_to_end(backend, world.task("echo 5 > $SIFLOW_RESULTS; exit 1"), Told())
    assert ended.outcome.kind is OutcomeKind.FAILED
    assert ended.outcome.results == 5
