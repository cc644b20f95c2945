"""The last lines of a Ray program that failed are shown once."""

from __future__ import annotations

import pytest

from siflow_provider.backends.kubernetes.logs.repeats import RepeatFilter
from siflow_provider.core.status import LogLine

# as Ray 2.60 writes to a pipe
OWN = "2026-05-01 10:00:00,379\t{} cli.py:74 -- "
VERDICT = [OWN.format("ERR") + f"\x1b[31m{text}\x1b[39m" for text in ("----", "Job 'bert-x' failed", "----")]
ANNOUNCEMENT = (
    OWN.format("INFO")
    + "Status message: Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):"
)
SHOWN = (
    OWN.format("INFO") + "Status message: Job entrypoint command failed with exit code 1; its last lines stand above."
)


def log(*texts: str) -> list[LogLine]:
    return [LogLine("submitter-0", text, str(number)) for number, text in enumerate(texts)]


def shown(lines: list[LogLine], *, size: int = 1000) -> list[LogLine]:
    repeats, out = RepeatFilter(), []
    for start in range(0, len(lines), size):
        out += repeats.passed(lines[start : start + size])
    return out + repeats.rest()


@pytest.mark.parametrize("count", [1, 9, 10, 11, 50])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_last_lines_of_a_failed_program_are_shown_once(count: int, size: int) -> None:
    program = [f"step {number}" for number in range(count)]
    lines = shown(log(*program, *VERDICT, ANNOUNCEMENT, *program[-10:], ""), size=size)
    assert [line.text for line in lines] == [*program, *VERDICT, SHOWN]
    assert lines[-1].position == str(count + 3 + 1 + min(count, 10))  # who reads on stands behind the repeated lines


def test_alike_lines_are_counted() -> None:
    program = ["loss nan"] * 12
    assert [line.text for line in shown(log(*program, *VERDICT, ANNOUNCEMENT, *program[-10:], "", "more"))] == [
        *program,
        *VERDICT,
        SHOWN,
        "more",
    ]


def test_what_ray_cuts_at_twenty_thousand_characters_is_known_again() -> None:
    program = ["a" * 15_000, "b" * 15_000]
    cut = "".join(f"{line}\n" for line in program)[-20_000:].split("\n")
    assert [line.text for line in shown(log(*program, *VERDICT, ANNOUNCEMENT, *cut))] == [*program, *VERDICT, SHOWN]


def test_lines_that_are_no_repeat_stay() -> None:
    lines = shown(log("one", *VERDICT, ANNOUNCEMENT, "another"))
    assert [line.text for line in lines] == ["one", *VERDICT, ANNOUNCEMENT, "another"]


def test_a_reader_that_began_late_keeps_what_it_can_not_compare() -> None:
    lines = shown(log(*VERDICT[1:], ANNOUNCEMENT, "one", "two", ""))
    assert [line.text for line in lines] == [*VERDICT[1:], ANNOUNCEMENT, "one", "two", ""]
