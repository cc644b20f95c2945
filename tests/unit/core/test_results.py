from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.core.results import MARKER, MAX_RESULT_BYTES, ResultReader, result_line
from siflow_provider.core.status import LogLine
from siflow_provider.core.veil import Veil

PIECE = 16 * 1024


def feed(reader: ResultReader, text: str) -> list[str]:
    """Feed one line, in pieces of at most 16 KiB as a backend gives them; return the notes."""
    pieces = [text[start : start + PIECE // 4] for start in range(0, len(text), PIECE // 4)] or [""]
    notes = [
        reader.feed(LogLine("master-0", piece, "0", partial=index < len(pieces) - 1))
        for index, piece in enumerate(pieces)
    ]
    return [note for note in notes if note is not None]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.integers(0, 4), st.booleans())
def test_any_json_file_comes_back_as_it_was(value: Any, indent: int, ascii_only: bool) -> None:
    line = result_line(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert line is not None
    reader = ResultReader()
    assert feed(reader, line) == []
    assert reader.found
    assert reader.value == value


def test_a_text_with_other_line_separators_in_it_stays_one_text() -> None:
    value = {"note": "one\u2028two\u2029three\x85four\x7f"}
    line = result_line(json.dumps(value, indent=1, ensure_ascii=False))
    reader = ResultReader()
    assert feed(reader, line or "") == []
    assert reader.value == value


def test_a_result_of_many_pieces_is_put_together() -> None:
    reader = ResultReader()
    value = {"curve": list(range(20_000))}
    assert feed(reader, f"{MARKER} {json.dumps(value)}") == []
    assert reader.value == value


def test_other_lines_are_no_results() -> None:
    reader = ResultReader()
    for text in ("epoch 1", f" {MARKER} 1", "::siflow-result 2", f"x {MARKER} 3"):
        assert feed(reader, text) == []
    assert not reader.found


def test_the_last_good_result_wins() -> None:
    reader = ResultReader()
    notes = [*feed(reader, f"{MARKER} 1"), *feed(reader, f"{MARKER}2"), *feed(reader, f"{MARKER} nonsense")]
    assert reader.value == 2
    assert len(notes) == 1


def test_a_marked_line_between_pieces_of_a_long_one_is_text_of_that_line() -> None:
    reader = ResultReader()
    long = "x" * PIECE
    reader.feed(LogLine("master-0", long, "0", partial=True))
    reader.feed(LogLine("master-0", f"{MARKER} 1", "1"))
    assert not reader.found


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("NaN", "NaN"),
        ("[1, Infinity]", "Infinity"),
        ('{"loss": 1e999}', "1e999"),
        ("[" * 300 + "]" * 300, "nested more than 200"),
        ("[" * 100_000, "not JSON"),
        ('"' + "x" * MAX_RESULT_BYTES + '"', "256 KiB"),
        ('"' + "漢" * (MAX_RESULT_BYTES // 3) + '"', "256 KiB"),
    ],
    ids=[
        "torn",
        "empty",
        "nan",
        "infinity",
        "too large a number",
        "deep",
        "very deep",
        "long",
        "long in bytes",
    ],
)
def test_what_can_not_be_used_is_told_in_one_note(text: str, word: str) -> None:
    reader = ResultReader()
    notes = feed(reader, f"{MARKER} {text}")
    assert len(notes) == 1
    assert word in notes[0]
    assert len(notes[0]) < 400
    assert not reader.found
    assert feed(reader, f"{MARKER} 1") == []
    assert reader.value == 1


def test_a_hidden_value_where_the_quoted_beginning_ends_is_not_halved() -> None:
    reader = ResultReader(Veil.of(["canary-7391"]).over)
    (note,) = feed(reader, f"{MARKER} {'x' * 75}canary-7391")
    assert "xx***'" in note
    assert "can" not in note.removeprefix(note.partition("begins with")[0])


def test_the_largest_result_is_taken() -> None:
    reader = ResultReader()
    text = '"' + "x" * (MAX_RESULT_BYTES - 2) + '"'
    assert feed(reader, f"{MARKER} {text}") == []
    assert reader.found


def test_an_empty_file_is_no_result() -> None:
    assert result_line("") is None
    assert result_line("\n \r\n") is None
